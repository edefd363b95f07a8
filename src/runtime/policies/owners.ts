/** Reads the owners of objects live from the API server. */
import { isDeepStrictEqual } from 'node:util';

import type { LiveOwner, Owners } from '../../admission/policy/world.ts';
import type { KubeClient } from '../../kube/client.ts';
import type { Discovery } from '../../kube/discovery.ts';
import { splitApiVersion, type ObjectMeta } from '../../json/kube-object.ts';
import { apiVersionOf, type Resource } from '../../kube/object.ts';

/** Timeout of a read, in milliseconds: a user waits for the answer. The sweep links the owners that were missed. */
const READ_MS = 2_000;
/**
 * Pause between new discoveries of a group, in milliseconds. A restore creates thousands of children before their
 * owners, and each read of a missing owner is a 404.
 */
const RELEARN_MS = 5_000;

/**
 * @param isOurs whether Gatehouse itself writes
 * @param now a monotonic clock, in milliseconds
 */
export function createOwners(
  client: Pick<KubeClient, 'getMetadata'>,
  discovery: Pick<Discovery, 'resolveKind' | 'forget'>,
  isOurs: Owners['isOurs'],
  now: () => number,
): Owners {
  const relearnt = new Map<string, number>();
  const mayRelearn = (group: string): boolean => {
    if (now() - (relearnt.get(group) ?? -RELEARN_MS) < RELEARN_MS) return false;
    relearnt.set(group, now());
    return true;
  };

  return {
    read: async ({ apiVersion, kind, name }, namespace, signal) => {
      const { group, version } = splitApiVersion(apiVersion);
      const wanted = { group, version, kind };
      const get = async (resource: Resource): Promise<LiveOwner | undefined> => {
        if (resource.namespaced && namespace === undefined) return undefined;
        const place = { namespace: resource.namespaced ? namespace : undefined, name };
        const found = await client.getMetadata(resource, place, { signal, timeoutMs: READ_MS });
        return found === undefined ? undefined : toLiveOwner(resource, found.metadata);
      };

      const resource = await discovery.resolveKind(wanted, signal);
      const found = resource === undefined ? undefined : await get(resource);
      if (found !== undefined || resource === undefined || !mayRelearn(group)) return found;
      // 404 may also mean that the API server no longer serves this version: the discovery cache may be stale.
      discovery.forget(resource);
      const current = await discovery.resolveKind(wanted, signal);
      return current === undefined || isDeepStrictEqual(current, resource) ? undefined : await get(current);
    },
    isOurs,
  };
}

function toLiveOwner(
  resource: Resource,
  { uid = '', creationTimestamp, deletionTimestamp, labels }: ObjectMeta,
): LiveOwner {
  return { uid, apiVersion: apiVersionOf(resource), creationTimestamp, deletionTimestamp, labels };
}
