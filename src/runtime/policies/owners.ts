/** Owners of objects as they are now, read from the API server. */
import { isDeepStrictEqual } from 'node:util';

import type { LiveOwner, Owners } from '../../admission/policy/world.ts';
import { groupOf } from '../../api/owner-record.ts';
import type { KubeClient } from '../../kube/client.ts';
import type { Discovery } from '../../kube/discovery.ts';
import type { ObjectMeta } from '../../json/kube-object.ts';
import { apiVersionOf, type Resource } from '../../kube/object.ts';

export interface OwnersParts {
  readonly client: Pick<KubeClient, 'getMetadata'>;
  readonly discovery: Pick<Discovery, 'resolveKind' | 'forget'>;
  /** The namespace in which Gatehouse runs. */
  readonly namespace: string;
  /** Milliseconds since some moment. */
  readonly now: () => number;
}

/** A user waits for an answer, and an owner that is not found in time is linked by the sweep. */
const READ_MS = 2_000;
/** Children are restored by thousands before their owners, and each of those is a 404. */
const RELEARN_MS = 5_000;

export function createOwners({ client, discovery, namespace: own, now }: OwnersParts): Owners {
  const relearnt = new Map<string, number>();
  const mayRelearn = (group: string): boolean => {
    if (now() - (relearnt.get(group) ?? -RELEARN_MS) < RELEARN_MS) return false;
    relearnt.set(group, now());
    return true;
  };

  return {
    read: async ({ apiVersion, kind, name }, namespace, signal) => {
      const group = groupOf(apiVersion);
      const wanted = { group, version: apiVersion.slice(apiVersion.indexOf('/') + 1), kind };
      const get = async (resource: Resource): Promise<LiveOwner | undefined> => {
        if (resource.namespaced && namespace === undefined) return undefined;
        const place = { namespace: resource.namespaced ? namespace : undefined, name };
        const found = await client.getMetadata(resource, place, { signal, timeoutMs: READ_MS });
        return found === undefined ? undefined : toLiveOwner(resource, found.metadata);
      };

      const resource = await discovery.resolveKind(wanted, signal);
      const found = resource === undefined ? undefined : await get(resource);
      if (found !== undefined || resource === undefined || !mayRelearn(group)) return found;
      // A version that is no longer served answers 404 as well, and what we know of versions may be old.
      discovery.forget(resource);
      const current = await discovery.resolveKind(wanted, signal);
      return current === undefined || isDeepStrictEqual(current, resource) ? undefined : await get(current);
    },
    // Whoever may run as a service account of our namespace can read the key of our CA there anyway.
    isOurs: (username) => username.startsWith(`system:serviceaccount:${own}:`),
  };
}

function toLiveOwner(
  resource: Resource,
  { uid = '', creationTimestamp, deletionTimestamp, labels }: ObjectMeta,
): LiveOwner {
  return {
    uid,
    apiVersion: apiVersionOf(resource),
    creationTimestamp,
    deletionTimestamp,
    labels,
  };
}
