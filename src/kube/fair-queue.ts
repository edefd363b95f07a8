export type FairQueue<Value> = ReturnType<typeof createFairQueue<Value>>;

/** Values by group, for example by namespace, and by key. Groups take turns, so that none delays the others. */
export function createFairQueue<Value>() {
  const groups = new Map<string, Map<string, Value>>();
  let size = 0;
  const remove = (group: string, key: string): void => {
    const own = groups.get(group);
    if (own?.delete(key) !== true) return;
    size -= 1;
    if (own.size === 0) groups.delete(group);
  };
  /** Removes it, and lets all other groups have their turns first. */
  const take = (group: string, key: string): void => {
    remove(group, key);
    const own = groups.get(group);
    if (own === undefined) return;
    groups.delete(group);
    groups.set(group, own);
  };
  return {
    size: (): number => size,
    get: (group: string, key: string): Value | undefined => groups.get(group)?.get(key),
    set: (group: string, key: string, value: Value): void => {
      const own = groups.get(group) ?? new Map<string, Value>();
      if (!own.has(key)) size += 1;
      groups.set(group, own.set(key, value));
    },
    delete: remove,
    take,
    next: (isFree: (group: string) => boolean = () => true): readonly [string, Value] | undefined => {
      for (const [group, own] of groups) {
        if (!isFree(group)) continue;
        const [first] = own;
        if (first !== undefined) take(group, first[0]);
        return first;
      }
      return undefined;
    },
    /** In the order of their turns. */
    groups: (): ReadonlyMap<string, ReadonlyMap<string, Value>> => groups,
    clear: (): void => {
      groups.clear();
      size = 0;
    },
  };
}
