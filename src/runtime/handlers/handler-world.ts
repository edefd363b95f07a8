/** The cluster as handlers see it: stores, and live reads. */
import type { ReadKind } from '../../admission/handlers/compile-handler.ts';
import { Unreadable } from '../../admission/handlers/errors.ts';
import type { HandlerWorld } from '../../admission/handlers/handler-world.ts';
import { type KubeObject, groupResourceName } from '../../json/kube-object.ts';
import { ApiError } from '../../kube/api-error.ts';
import { dropManagedFields } from '../../kube/watch/change.ts';
import type { KubeClient } from '../../kube/client.ts';
import type { Discovery } from '../../kube/discovery.ts';
import type { Resource } from '../../kube/object.ts';
import { listIn, type Namespaces } from '../namespaces.ts';
import type { HandlerStores } from './handler-stores.ts';

export function createHandlerWorld(
  client: Pick<KubeClient, 'get' | 'getMetadata' | 'list' | 'listAll'>,
  discovery: Pick<Discovery, 'resolve' | 'forget'>,
  stores: Pick<HandlerStores, 'want' | 'find' | 'select'>,
  namespaces?: Namespaces,
): HandlerWorld {
  const resourceOf = async (kind: ReadKind, signal: AbortSignal): Promise<Resource> => {
    // Discovery remembers for some seconds that a kind is not served. Its CRD may have been created since.
    if ((await discovery.resolve(kind, signal)) === undefined) discovery.forget(kind);
    const found = await discovery.resolve(kind, signal);
    if (found === undefined) throw new Unreadable(`the API server does not serve ${groupResourceName(kind)}`);
    return { ...found, version: kind.version ?? found.version };
  };
  const get = async (
    kind: ReadKind,
    resource: Resource,
    place: Parameters<KubeClient['get']>[1],
    signal: AbortSignal,
  ) =>
    kind.metadataOnly
      ? await client.getMetadata(resource, place, { signal })
      : await client.get<KubeObject>(resource, place, { signal });

  return {
    isNamespaced: async (kind, signal) => (await resourceOf(kind, signal)).namespaced,
    find: (kind, place) => {
      stores.want(kind);
      return stores.find(kind, place);
    },
    select: (kind, namespace) => {
      stores.want(kind);
      return stores.select(kind, namespace);
    },
    read: unlessRefused(async (kind, place, signal) => {
      const resource = await resourceOf(kind, signal);
      const found = await get(kind, resource, place, signal);
      if (found !== undefined) return dropManagedFields(found);
      // 404 may also mean that the API server no longer serves this version: the discovery cache may be stale.
      if (kind.version !== undefined) {
        const { namespace } = place;
        // throws if the version is not served
        await client.list(resource, { namespace, metadataOnly: true, limit: 1, signal });
        return undefined;
      }
      discovery.forget(kind);
      const current = await resourceOf(kind, signal);
      const isMoved = current.version !== resource.version;
      const again = isMoved ? await get(kind, current, place, signal) : undefined;
      return again === undefined ? undefined : dropManagedFields(again);
    }),
    query: unlessRefused(async (kind, { namespace, labelSelector }, signal) => {
      const { metadataOnly } = kind;
      const places = namespace === undefined ? namespaces : [namespace];
      const options = { labelSelector, metadataOnly, signal };
      const items = await listIn(client, await resourceOf(kind, signal), places, options);
      return items.map(dropManagedFields);
    }),
  };
}

/** Codes for a missing permission or an unserved version: a retry within the time of a request does not help. */
const LASTING: readonly number[] = [401, 403, 404, 405];

function unlessRefused<Args extends readonly unknown[], Result>(
  read: (...args: Args) => Promise<Result>,
): (...args: Args) => Promise<Result> {
  return async (...args) => {
    try {
      return await read(...args);
    } catch (cause) {
      if (!(cause instanceof ApiError && LASTING.includes(cause.code))) throw cause;
      throw new Unreadable(cause.message, { cause });
    }
  };
}
