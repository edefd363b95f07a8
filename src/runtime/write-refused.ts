/** Writes that the API server refuses. */
import { isRefused } from '../kube/api-error.ts';

/**
 * A retry fails until a user changes the object, a permission or a policy; no watch reports the last two. The message
 * contains the answer of the API server and what to do.
 */
export class WriteRefused extends Error {
  override readonly name = 'WriteRefused';
}

/** Retry interval of a refused write, in milliseconds. */
export const REFUSED_RECHECK_MS = 60_000;
/** How long a refusal must last, in milliseconds: long enough for a store to receive a change. */
const CONFIRMED_MS = 2_000;

export interface RefusedWrites {
  /**
   * Whether to report the refusal to users. The first refusals count as ordinary failures: the object may have changed
   * in the meantime. A write that is refused for some seconds concerns the current object.
   */
  readonly isConfirmed: (key: string, error: unknown) => error is WriteRefused;
  /** Called when the write succeeded or is no longer needed. */
  readonly over: (key: string) => void;
}

export function createRefusedWrites(now: () => Date): RefusedWrites {
  const first = new Map<string, { readonly message: string; readonly at: number }>();
  return {
    isConfirmed: (key, error): error is WriteRefused => {
      if (!(error instanceof WriteRefused)) return false;
      const known = first.get(key);
      const age = known?.message === error.message ? now().getTime() - known.at : -1;
      if (age < 0) first.set(key, { message: error.message, at: now().getTime() });
      return age >= CONFIRMED_MS;
    },
    over: (key) => void first.delete(key),
  };
}

/** The manifest with all permissions that a leader needs without optional features. */
export const CLUSTER_ROLE = 'deploy/base/cluster-role.yaml';

/**
 * @param permit the manifest that grants the permission, for the message to users
 * @throws WriteRefused when the API server refuses the write; rethrows other errors of `write`
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
