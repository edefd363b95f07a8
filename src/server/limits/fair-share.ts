/** `over-share`: available to other clients only. */
export type Shortage = 'over-share' | 'full';

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
  const check = (client: string, amount: number): Shortage | undefined => {
    const left = limit - taken - amount;
    if (left < 0) return 'full';
    return (held.get(client) ?? 0) > left ? 'over-share' : undefined;
  };
  return {
    check,
    /** Takes `amount` if it is available. The caller gives it back once. */
    take: (client: string, amount: number): Shortage | undefined => {
      const shortage = check(client, amount);
      if (shortage !== undefined) return shortage;
      held.set(client, (held.get(client) ?? 0) + amount);
      taken += amount;
      return undefined;
    },
    giveBack: (client: string, amount: number): void => {
      const own = (held.get(client) ?? 0) - amount;
      // Clients choose the names: drop entries that hold nothing.
      if (own > 0) held.set(client, own);
      else held.delete(client);
      taken -= amount;
    },
    /** The total of all clients. */
    taken: () => taken,
  };
}
