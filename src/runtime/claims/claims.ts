/**
 * Stores UniqueClaims in the API server, which decides between concurrent writers: by the name on create, by the
 * resourceVersion on replace and delete.
 */
import type { Claims, ClaimStore } from '../../admission/policy/world.ts';
import type { UniqueClaim } from '../../api/unique-claim.ts';
import { isAlreadyExists, isConflict, isNotFound } from '../../kube/api-error.ts';
import type { KubeClient } from '../../kube/client.ts';
import { namespaces } from '../../kube/well-known.ts';
import { UNIQUE_CLAIMS } from '../resources.ts';
import { createRecent } from './recent.ts';

export function createClaims(
  client: Pick<KubeClient, 'get' | 'create' | 'replace' | 'delete'>,
  settleMs: number,
): ClaimStore {
  return {
    settleMs,
    read: (name, signal) => client.get<UniqueClaim>(UNIQUE_CLAIMS, { name }, { signal }),
    create: async (claim, signal) => {
      try {
        return await client.create(UNIQUE_CLAIMS, claim, { signal });
      } catch (error) {
        if (isAlreadyExists(error)) return 'taken';
        throw error;
      }
    },
    replace: async (claim, signal) => {
      try {
        return await client.replace(UNIQUE_CLAIMS, claim, { signal });
      } catch (error) {
        if (isConflict(error) || isNotFound(error)) return 'changed';
        throw error;
      }
    },
    remove: async ({ metadata: { name = '', uid, resourceVersion } }, signal) => {
      try {
        const preconditions = { uid, resourceVersion };
        const outcome = await client.delete(UNIQUE_CLAIMS, { name }, { preconditions, signal });
        return outcome === 'deleted' ? 'removed' : 'changed';
      } catch (error) {
        if (isConflict(error)) return 'changed';
        throw error;
      }
    },
  };
}

/** A namespace still counts as existing this long after a read has found it, in milliseconds. */
const NAMESPACE_MS = 60_000;
const MOST_NAMESPACES = 10_000;

export function createNamespaceCheck(client: Pick<KubeClient, 'getMetadata'>): Claims['hasNamespace'] {
  const recent = createRecent(MOST_NAMESPACES, NAMESPACE_MS);
  return async (name, signal) => {
    if (recent.has(name)) return true;
    const found = await client.getMetadata(namespaces, { name }, { signal });
    if (found !== undefined) recent.add(name);
    return found !== undefined;
  };
}
