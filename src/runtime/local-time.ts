import type { Reconcile } from './reconcile.ts';

/**
 * A reconcile whose times are the API server's, so that replicas agree on them, for a queue that waits by our own clock. Without
 * it a replica whose clock is behind would come back late, and one whose clock is ahead at once, again and again.
 */
export function inLocalTime(
  reconcile: Reconcile,
  serverNow: () => Date,
  localNow: () => number = Date.now,
): Reconcile {
  return async (key, signal) => {
    const result = await reconcile(key, signal);
    if (result.kind !== 'requeue') return result;
    const waitMs = result.at.getTime() - serverNow().getTime();
    return { ...result, at: new Date(localNow() + waitMs) };
  };
}
