/** `over-share`: available to other clients only. */
export type Lack = 'over-share' | 'full';

/**
 * Shares `limit` among clients that are not known in advance. Each client may hold at most as much as it leaves for all
 * others. A single client gets at most half, so a new client finds room however slow the others are.
 *
 * @see Choudhury, Hahne: Dynamic Queue Length Thresholds for Shared-Memory Packet Switches, IEEE/ACM ToN 6 (2), 1998
 */
export function createFairShare(limit: number) {
  const held = new Map<string, number>();
  let taken = 0;
  /** Why `amount` is not available; undefined when it is. */
  const lack = (who: string, amount: number): Lack | undefined => {
    const left = limit - taken - amount;
    if (left < 0) return 'full';
    return (held.get(who) ?? 0) > left ? 'over-share' : undefined;
  };
  return {
    lack,
    /** Takes `amount` if it is available. The caller gives it back once. */
    take: (who: string, amount: number): Lack | undefined => {
      const lacking = lack(who, amount);
      if (lacking !== undefined) return lacking;
      held.set(who, (held.get(who) ?? 0) + amount);
      taken += amount;
      return undefined;
    },
    giveBack: (who: string, amount: number): void => {
      const own = (held.get(who) ?? 0) - amount;
      // Clients choose the names: drop entries that hold nothing.
      if (own > 0) held.set(who, own);
      else held.delete(who);
      taken -= amount;
    },
    /** The total of all clients. */
    taken: () => taken,
  };
}
