import { isRefused } from '../kube/api-error.ts';

/** A retry fails until a user changes the object, a permission or a policy; no watch reports the last two. */
export class WriteRefused extends Error {
  override readonly name = 'WriteRefused';
}

export const REFUSED_RECHECK_MS = 60_000;
/** How long a refusal must last, in milliseconds: long enough for a store to receive a change. */
const CONFIRMED_MS = 2_000;

export type RefusedWrites = ReturnType<typeof createRefusedWrites>;

export function createRefusedWrites(now: () => Date) {
  const first = new Map<string, { readonly message: string; readonly at: number }>();
  const isConfirmed = (key: string, { message }: WriteRefused): boolean => {
    const known = first.get(key);
    const age = known?.message === message ? now().getTime() - known.at : -1;
    if (age < 0) first.set(key, { message, at: now().getTime() });
    return age >= CONFIRMED_MS;
  };
  const over = (key: string): void => {
    first.delete(key);
  };
  return {
    over,
    /** The first refusals are thrown: the object may have changed. One that lasts for seconds is returned, for users. */
    attempt: async <T>(key: string, work: () => Promise<T>): Promise<T | WriteRefused> => {
      try {
        const result = await work();
        over(key);
        return result;
      } catch (error) {
        if (error instanceof WriteRefused && isConfirmed(key, error)) return error;
        throw error;
      }
    },
  };
}

export async function isWritten(
  write: () => Promise<unknown>,
  tell: (problem: string) => void,
): Promise<boolean> {
  try {
    await write();
    return true;
  } catch (error) {
    if (!(error instanceof WriteRefused)) throw error;
    tell(error.message);
    return false;
  }
}

/** The manifest with all permissions that a leader needs without optional features. */
export const CLUSTER_ROLE = 'deploy/base/controllers-account.yaml';

/** @param permit the manifest that grants the permission, for the message to users */
export async function refusable<T>(permit: string, write: () => Promise<T>): Promise<T> {
  try {
    return await write();
  } catch (error) {
    if (!isRefused(error)) throw error;
    const advice =
      error.code === 403
        ? `Permit it (${permit}), or look for the quota or admission policy that forbids it.`
        : 'Correct the object, or the admission policy that refuses it.';
    throw new WriteRefused(`the API server refuses it. ${advice} It says: ${error.message}`, {
      cause: error,
    });
  }
}
