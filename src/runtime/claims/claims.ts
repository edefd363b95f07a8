/**
 * Stores UniqueClaims in the API server, which decides between concurrent writers: by the name on create, by the
 * resourceVersion on replace and delete.
 */
import type { Claims } from '../../admission/policy/world.ts';
import type { UniqueClaim } from '../../api/unique-claim.ts';
import { isAlreadyExists, isConflict, isNotFound } from '../../kube/api-error.ts';
import type { KubeClient } from '../../kube/client.ts';
import { UNIQUE_CLAIMS } from '../resources.ts';

export function createClaims(
  client: Pick<KubeClient, 'get' | 'create' | 'replace' | 'delete'>,
  settleMs: number,
): Claims {
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
