export type Lack = 'over-share' | 'full';

/** A budget that no single client can exhaust. */
export interface FairShare {
  /** Why `amount` is not available; undefined when it is. `over-share`: available to other clients only. */
  readonly lack: (who: string, amount: number) => Lack | undefined;
  /** Takes `amount` if it is available. The caller gives it back once. */
  readonly take: (who: string, amount: number) => Lack | undefined;
  readonly giveBack: (who: string, amount: number) => void;
  /** The total of all clients. */
  readonly taken: () => number;
}

/**
 * Shares `limit` among clients that are not known in advance. Each client may hold at most as much as it leaves for all
 * others. A single client gets at most half, so a new client finds room however slow the others are.
 *
 * @see Choudhury, Hahne: Dynamic Queue Length Thresholds for Shared-Memory Packet Switches, IEEE/ACM ToN 6 (2), 1998
 */
export function createFairShare(limit: number): FairShare {
  const held = new Map<string, number>();
  let taken = 0;
  const lack = (who: string, amount: number): Lack | undefined => {
    const left = limit - taken - amount;
    if (left < 0) return 'full';
    return (held.get(who) ?? 0) > left ? 'over-share' : undefined;
  };
  return {
    lack,
    take: (who, amount) => {
      const lacking = lack(who, amount);
      if (lacking !== undefined) return lacking;
      held.set(who, (held.get(who) ?? 0) + amount);
      taken += amount;
      return undefined;
    },
    giveBack: (who, amount) => {
      const own = (held.get(who) ?? 0) - amount;
      // Clients choose the names: drop entries that hold nothing.
      if (own > 0) held.set(who, own);
      else held.delete(who);
      taken -= amount;
    },
    taken: () => taken,
  };
}
