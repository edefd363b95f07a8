/** One view of the cluster, shared by all viewers. */

/** The minimum pause after a read, as a multiple of its duration: reads take at most a tenth of the time. */
const REST = 9;

export interface SharedViewDeps<T> {
  readonly look: () => Promise<T>;
  /** A monotonic clock, in milliseconds. */
  readonly now: () => number;
  /** The minimum time from the end of a read to the start of the next, in milliseconds. */
  readonly leastMs: number;
}

/** Returns the cached view, or reads it again if it is too old. Concurrent callers share one read. */
export function createSharedView<T>({ look, now, leastMs }: SharedViewDeps<T>): () => Promise<T> {
  let last: { readonly seen: T; readonly until: number } | undefined;
  let looking: Promise<T> | undefined;

  const lookAgain = async (): Promise<T> => {
    const started = now();
    try {
      const seen = await look();
      const ended = now();
      last = { seen, until: ended + Math.max(leastMs, (ended - started) * REST) };
      return seen;
    } finally {
      looking = undefined;
    }
  };

  return async () => {
    if (last !== undefined && now() < last.until) return last.seen;
    looking ??= lookAgain();
    return await looking;
  };
}
