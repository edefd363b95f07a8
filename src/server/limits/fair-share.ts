/** `over-share`: available to other clients only. */
export type Shortage = 'over-share' | 'full';

/** Amounts by name. Clients choose the names: names without an amount are dropped. */
export function createTally() {
  const amounts = new Map<string, number>();
  const of = (name: string): number => amounts.get(name) ?? 0;
  return {
    of,
    add: (name: string, amount: number): void => {
      const sum = of(name) + amount;
      if (sum > 0) amounts.set(name, sum);
      else amounts.delete(name);
    },
  };
}

/**
 * Shares `limit` among clients that are not known in advance. Each client may hold at most as much as it leaves for all
 * others. A single client gets at most half, so a new client finds room however slow the others are.
 *
 * @see Choudhury, Hahne: Dynamic Queue Length Thresholds for Shared-Memory Packet Switches, IEEE/ACM ToN 6 (2), 1998
 */
export function createFairShare(limit: number) {
  const held = createTally();
  let taken = 0;
  /** Why `amount` is not available; undefined when it is. */
  const check = (client: string, amount: number): Shortage | undefined => {
    const left = limit - taken - amount;
    if (left < 0) return 'full';
    return held.of(client) > left ? 'over-share' : undefined;
  };
  return {
    check,
    /** Takes `amount` if it is available. The caller gives it back once. */
    take: (client: string, amount: number): Shortage | undefined => {
      const shortage = check(client, amount);
      if (shortage !== undefined) return shortage;
      held.add(client, amount);
      taken += amount;
      return undefined;
    },
    giveBack: (client: string, amount: number): void => {
      held.add(client, -amount);
      taken -= amount;
    },
    /** What the client leaves for others, without what it holds itself. */
    room: (client: string): number => limit - taken - held.of(client),
    /** The total of all clients. */
    taken: () => taken,
  };
}
