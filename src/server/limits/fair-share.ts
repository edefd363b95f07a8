export type Lack = 'over-share' | 'full';

/** Room for so much at once, of which nobody takes all. */
export interface FairShare {
  /** Why there is no room for `amount`; undefined when there is. `over-share`: not for this one, but for others. */
  readonly lack: (who: string, amount: number) => Lack | undefined;
  /** Takes `amount` unless there is a lack of it. What was taken is to be given back, once. */
  readonly take: (who: string, amount: number) => Lack | undefined;
  readonly giveBack: (who: string, amount: number) => void;
  /** By all together. */
  readonly taken: () => number;
}

/**
 * Shares out `limit` among whoever comes, without knowing who will: each may hold no more than it leaves to all others. Alone
 * that is half, and whoever comes new finds room, however slow the others are.
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
      // Names come from clients: those that hold nothing are forgotten.
      if (own > 0) held.set(who, own);
      else held.delete(who);
      taken -= amount;
    },
    taken: () => taken,
  };
}
