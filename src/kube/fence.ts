import type { KubeClient, WriteOptions } from './client.ts';

/** The lease has run out or may have: another replica may lead already, so this write was not sent. */
export class NotLeaderError extends Error {
  override readonly name = 'NotLeaderError';

  constructor() {
    super('this replica no longer leads: nothing was written, the new leader does it');
  }
}

/**
 * A client that writes only while `isLeader` holds, asked again right before each attempt: a process that was suspended
 * between decision and write, or a retry after a long wait, must not write as a leader of the past.
 * Every mutating verb rejects with {NotLeaderError} otherwise. Reads pass.
 */
export function fenced(client: KubeClient, isLeader: () => boolean): KubeClient {
  const check = (): void => {
    if (!isLeader()) throw new NotLeaderError();
  };
  const guarded = <O extends WriteOptions>(options: O | undefined) => {
    check();
    const beforeSend = (): void => {
      check();
      options?.beforeSend?.();
    };
    return { ...options, beforeSend };
  };
  return {
    ...client,
    create: async (resource, object, options) => client.create(resource, object, guarded(options)),
    replace: async (resource, object, options) => client.replace(resource, object, guarded(options)),
    replaceStatus: async (resource, object, options) =>
      client.replaceStatus(resource, object, guarded(options)),
    patchJson: async (resource, ref, operations, options) =>
      client.patchJson(resource, ref, operations, guarded(options)),
    patchMerge: async (resource, ref, patch, options) =>
      client.patchMerge(resource, ref, patch, guarded(options)),
    patchStatus: async (resource, ref, patch, options) =>
      client.patchStatus(resource, ref, patch, guarded(options)),
    apply: async (resource, object, options) => {
      check();
      return client.apply(resource, object, { ...options, ...guarded(options) });
    },
    applyStatus: async (resource, object, options) =>
      client.applyStatus(resource, object, { ...options, ...guarded(options) }),
    delete: async (resource, ref, options) => client.delete(resource, ref, guarded(options)),
  };
}
