/** A map with sorted keys for up to about 100,000 entries: an insertion shifts all keys behind it. */
export interface SortedMap<Value> {
  readonly size: () => number;
  readonly get: (key: string) => Value | undefined;
  readonly set: (key: string, value: Value) => void;
  readonly delete: (key: string) => void;
  /**
   * The keys from `from` up to, but not including, `to`, in the order of their UTF-16 code units (for ASCII: of their
   * bytes).
   */
  readonly keys: (from: string, to?: string) => readonly string[];
}

export function createSortedMap<Value>(): SortedMap<Value> {
  const values = new Map<string, Value>();
  const sorted: string[] = [];
  return {
    size: () => sorted.length,
    get: (key) => values.get(key),
    set: (key, value) => {
      if (!values.has(key)) sorted.splice(firstAtOrAfter(sorted, key), 0, key);
      values.set(key, value);
    },
    delete: (key) => {
      if (values.delete(key)) sorted.splice(firstAtOrAfter(sorted, key), 1);
    },
    keys: (from, to) =>
      sorted.slice(firstAtOrAfter(sorted, from), to === undefined ? undefined : firstAtOrAfter(sorted, to)),
  };
}

/** The index of the first key that is not before `key`. */
function firstAtOrAfter(sorted: readonly string[], key: string): number {
  let low = 0;
  let high = sorted.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((sorted[middle] ?? '') < key) low = middle + 1;
    else high = middle;
  }
  return low;
}
