import { WriteRefused } from './write-refused.ts';
import { isRefused } from '../kube/api-error.ts';

/** What gives a leader all permissions that it needs without any option. */
export const CLUSTER_ROLE = 'deploy/base/cluster-role.yaml';

/**
 * @param permit the manifest that gives the permission, for people
 * @throws WriteRefused when the API server will not have the write; whatever else it throws stays as it is
 */
export async function refusable<T>(permit: string, write: () => Promise<T>): Promise<T> {
  try {
    return await write();
  } catch (error) {
    if (!isRefused(error)) throw error;
    const advice =
      error.code === 403
        ? `Permit it (${permit}), or look for the quota or admission policy that forbids it.`
        : 'Mend the object, or the admission policy that refuses it.';
    throw new WriteRefused(`the API server refuses it. ${advice} It says: ${error.message}`, {
      cause: error,
    });
  }
}
