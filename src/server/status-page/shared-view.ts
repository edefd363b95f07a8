/** One look at the cluster for all who watch. */

/** How much longer than a look takes the next one waits: looking takes a tenth of the time at most. */
const REST = 9;

export interface SharedViewDeps<T> {
  readonly look: () => Promise<T>;
  /** Milliseconds that never go back. */
  readonly now: () => number;
  /** From the end of a look to the beginning of the next, in milliseconds. */
  readonly leastMs: number;
}

/** What was seen last, or a new look where that is too old. Those who come while somebody looks wait for what that one sees. */
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
