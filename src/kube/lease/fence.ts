import type { Rest } from '../rest.ts';

/** The lease has expired or may have expired. Another replica may lead already, so the write was not sent. */
export class NotLeaderError extends Error {
  override readonly name = 'NotLeaderError';

  constructor() {
    super('this replica no longer leads: nothing was written, the new leader does it');
  }
}

/**
 * Sends writes only while `isLeader` returns true. It checks right before each attempt: a former leader must not write,
 * neither after a suspension between decision and write nor in a late retry. Otherwise each request but GET rejects
 * with {NotLeaderError}.
 */
export function fenced(rest: Rest, isLeader: () => boolean): Rest {
  const check = (): void => {
    if (!isLeader()) throw new NotLeaderError();
  };
  return {
    ...rest,
    request: async (request) => {
      if (request.method === 'GET') return rest.request(request);
      check();
      const beforeSend = (): void => {
        check();
        request.beforeSend?.();
      };
      return rest.request({ ...request, beforeSend });
    },
    impersonate: (who) => fenced(rest.impersonate(who), isLeader),
  };
}
