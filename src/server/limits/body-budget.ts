/** The memory budget for large request bodies. */
import { createFairShare } from './fair-share.ts';

export interface Reservation {
  /** The whole body has arrived: the sender can no longer be too slow. */
  readonly received: () => void;
  /** Idempotent. */
  readonly release: () => void;
}

/**
 * Reserves memory for a body of this length, as soon as its length is known. Undefined when there is not enough.
 * @param disconnect closes the connection; called when a slow sender blocks others
 */
type ReserveBody = (entry: string, bytes: number, disconnect: () => void) => Reservation | undefined;

/**
 * Enough for 20 MiB over the slowest network of a cluster. A slower client may continue until another one needs the memory:
 * otherwise a few connections that announce large bodies and send nothing would block all others.
 */
const SLOW_AFTER_MS = 1_000;

/** @param now in milliseconds */
export function createBodyBudget(limitBytes: number, now: () => number) {
  const share = createFairShare(limitBytes);
  /** Oldest first. */
  const receiving = new Set<{ readonly since: number; readonly disconnect: () => void }>();

  const evictOldest = (): boolean => {
    const [oldest] = receiving;
    if (oldest === undefined || now() - oldest.since < SLOW_AFTER_MS) return false;
    oldest.disconnect();
    return true;
  };
  const reserve: ReserveBody = (entry, bytes, disconnect) => {
    while (share.take(entry, bytes) !== undefined) if (!evictOldest()) return undefined;
    let isHeld = true;
    const release = () => {
      receiving.delete(sender);
      if (isHeld) share.giveBack(entry, bytes);
      isHeld = false;
    };
    const sender = {
      since: now(),
      disconnect: () => {
        release();
        disconnect();
      },
    };
    receiving.add(sender);
    return { received: () => receiving.delete(sender), release };
  };
  return { reserve, room: share.room };
}
