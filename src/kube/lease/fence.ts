import type { Rest } from '../rest.ts';

export class NotLeaderError extends Error {
  override readonly name = 'NotLeaderError';

  constructor() {
    super('this replica is not the leader anymore, so it wrote nothing: the new leader does the work');
  }
}

/** Checks right before each attempt: a former leader must not write after a suspension or in a late retry. */
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
