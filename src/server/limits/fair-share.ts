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

/** A client may hold at most what it leaves for others. @see Choudhury, Hahne: Dynamic Queue Length Thresholds, 1998 */
export function createFairShare(limit: number) {
  const held = createTally();
  let taken = 0;
  const check = (client: string, amount: number): Shortage | undefined => {
    const left = limit - taken - amount;
    if (left < 0) return 'full';
    return held.of(client) > left ? 'over-share' : undefined;
  };
  return {
    check,
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
    room: (client: string): number => limit - taken - held.of(client),
    taken: () => taken,
  };
}
