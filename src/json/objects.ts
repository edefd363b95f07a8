/** An assignment to `__proto__` would change the prototype. Not for all keys: V8 would make it a slow dictionary. */
export function setOwn<T>(object: Record<string, T>, key: string, value: T): void {
  if (key === '__proto__') {
    Object.defineProperty(object, key, { value, enumerable: true, configurable: true, writable: true });
  } else {
    object[key] = value;
  }
}

/** The named fields of an object that are present. A store keeps no other fields. */
export function pick<T extends object, Key extends keyof T>(
  object: T,
  ...keys: readonly Key[]
): Pick<T, Key> {
  const entries = keys.flatMap((key) => (object[key] === undefined ? [] : [[key, object[key]] as const]));
  return Object.fromEntries(entries) as Pick<T, Key>; // only optional fields are absent
}

/** A frozen object counts as deeply frozen. Iterative: users can nest objects ten thousand levels deep. */
export function deepFreeze<T>(value: T): T {
  const pending: unknown[] = [value];
  while (pending.length > 0) {
    const next = pending.pop();
    if (typeof next !== 'object' || next === null || Object.isFrozen(next)) continue;
    Object.freeze(next);
    for (const inner of Object.values(next)) pending.push(inner);
  }
  return value;
}

/** One item of each key: the last, at the place of the first. */
export const uniqueBy = <T>(items: readonly T[], keyOf: (item: T) => string): readonly T[] => [
  ...new Map(items.map((item) => [keyOf(item), item])).values(),
];

/** Orders texts by their code units, as Go orders ASCII. */
export const compareText = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0);

/** Memoises a function of an object, for as long as the object lives. */
export function memoizeWeak<Key extends object, Value>(compute: (key: Key) => Value): (key: Key) => Value {
  const known = new WeakMap<Key, { readonly value: Value }>();
  return (key) => {
    const entry = known.get(key) ?? { value: compute(key) };
    known.set(key, entry);
    return entry.value;
  };
}
