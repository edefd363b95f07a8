/** The memory for large bodies. */
import { createFairShare } from './fair-share.ts';

export interface BodyBudget {
  /**
   * Room for a body of this length, from its announcement on. Undefined when there is none.
   * @param cutOff ends the connection; called if it sends so slowly that others must not wait for it
   */
  readonly reserve: (entry: string, bytes: number, cutOff: () => void) => Reservation | undefined;
}

export interface Reservation {
  /** All of the body is there: whose fault it is if it stays for long is no longer its sender's. */
  readonly received: () => void;
  /** More than once does no harm. */
  readonly release: () => void;
}

/**
 * In this time 8 MiB come through the slowest network that a cluster has. Whoever takes longer may, as long as nobody needs the
 * room: otherwise a few connections that announce large bodies and send none would keep everyone else's out.
 */
const PATIENCE_MS = 1_000;

/** @param now in milliseconds */
export function createBodyBudget(limitBytes: number, now: () => number): BodyBudget {
  const share = createFairShare(limitBytes);
  /** The oldest first. */
  const receiving = new Set<{ readonly since: number; readonly cutOff: () => void }>();

  const makeWay = (): boolean => {
    const [oldest] = receiving;
    if (oldest === undefined || now() - oldest.since < PATIENCE_MS) return false;
    oldest.cutOff();
    return true;
  };
  return {
    reserve: (entry, bytes, cutOff) => {
      while (share.take(entry, bytes) !== undefined) if (!makeWay()) return undefined;
      let isHeld = true;
      const release = () => {
        receiving.delete(sender);
        if (isHeld) share.giveBack(entry, bytes);
        isHeld = false;
      };
      const sender = {
        since: now(),
        cutOff: () => {
          release();
          cutOff();
        },
      };
      receiving.add(sender);
      return { received: () => receiving.delete(sender), release };
    },
  };
}
