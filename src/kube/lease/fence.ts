import type { KubeClient, WriteOptions } from '../client.ts';

/** The lease has expired or may have expired. Another replica may lead already, so the write was not sent. */
export class NotLeaderError extends Error {
  override readonly name = 'NotLeaderError';

  constructor() {
    super('this replica no longer leads: nothing was written, the new leader does it');
  }
}

/**
 * A client that writes only while `isLeader` returns true. It checks right before each attempt: a former leader must
 * not write, neither after a suspension between decision and write nor in a late retry.
 * Otherwise every mutating verb rejects with {NotLeaderError}. Reads pass.
 */
export function fenced(client: KubeClient, isLeader: () => boolean): KubeClient {
  const check = (): void => {
    if (!isLeader()) throw new NotLeaderError();
  };
  const guard = (options: WriteOptions | undefined): Pick<WriteOptions, 'beforeSend'> => {
    check();
    return {
      beforeSend: () => {
        check();
        options?.beforeSend?.();
      },
    };
  };
  return {
    // Listed one by one, so that the compiler reports a new verb.
    get: client.get,
    getMetadata: client.getMetadata,
    list: client.list,
    pages: client.pages,
    listAll: client.listAll,
    create: async (resource, object, options) =>
      client.create(resource, object, { ...options, ...guard(options) }),
    replace: async (resource, object, options) =>
      client.replace(resource, object, { ...options, ...guard(options) }),
    replaceStatus: async (resource, object, options) =>
      client.replaceStatus(resource, object, { ...options, ...guard(options) }),
    patchJson: async (resource, ref, operations, options) =>
      client.patchJson(resource, ref, operations, { ...options, ...guard(options) }),
    patchMerge: async (resource, ref, patch, options) =>
      client.patchMerge(resource, ref, patch, { ...options, ...guard(options) }),
    patchStatus: async (resource, ref, patch, options) =>
      client.patchStatus(resource, ref, patch, { ...options, ...guard(options) }),
    apply: async (resource, object, options) =>
      client.apply(resource, object, { ...options, ...guard(options) }),
    applyStatus: async (resource, object, options) =>
      client.applyStatus(resource, object, { ...options, ...guard(options) }),
    delete: async (resource, ref, options) => client.delete(resource, ref, { ...options, ...guard(options) }),
  };
}
