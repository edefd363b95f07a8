export interface Memoized<Key, Result> {
  /** The cached result, or a new read. Concurrent callers share one read; a failed read is not cached. */
  readonly read: (key: Key) => Promise<Result>;
  /** Drops the cached results whose name matches. A read in flight still answers those who wait for it. */
  readonly forget: (matches: (name: string) => boolean) => void;
}

export interface Lifetime<Result> {
  readonly now: () => number;
  readonly ttlMs: number;
  /** Shortens or extends the TTL once the result is known, in milliseconds. Zero: do not cache it. */
  readonly ttlOf?: (result: Result) => number;
}

/** Memoises `read` by the name of its key. `read` doesn't get an AbortSignal, because several callers may wait for it. */
export function memoizeAsync<Key, Result>(
  read: (key: Key) => Promise<Result>,
  nameOf: (key: Key) => string,
  { now, ttlMs, ttlOf = () => ttlMs }: Lifetime<Result> = { now: () => 0, ttlMs: Infinity },
): Memoized<Key, Result> {
  const entries = new Map<string, { until: number; readonly result: Promise<Result> }>();
  return {
    read: (key) => {
      const name = nameOf(key);
      const startedAt = now();
      const known = entries.get(name);
      if (known !== undefined && startedAt < known.until) return known.result;
      // Names may come from users: expired results must not accumulate.
      if (ttlMs < Infinity)
        for (const [other, { until }] of entries) if (until <= startedAt) entries.delete(other);
      const entry = { until: startedAt + ttlMs, result: read(key) };
      entries.set(name, entry);
      entry.result.then(
        (result) => {
          entry.until = startedAt + ttlOf(result);
        },
        () => {
          if (entries.get(name) === entry) entries.delete(name);
        },
      );
      return entry.result;
    },
    forget: (matches) => {
      for (const name of entries.keys()) if (matches(name)) entries.delete(name);
    },
  };
}
