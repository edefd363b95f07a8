/** One view of the cluster, shared by all viewers. */

/** The minimum pause after a read, as a multiple of its duration: reads take at most a tenth of the time. */
const REST = 9;

/**
 * Returns the cached view, or reads it again if it is too old. Concurrent callers share one read.
 * @param minMs the minimum time from the end of a read to the start of the next, in milliseconds
 * @param now a monotonic clock, in milliseconds
 */
export function createSharedView<T>(
  read: () => Promise<T>,
  minMs: number,
  now: () => number,
): () => Promise<T> {
  let last: { readonly view: T; readonly until: number } | undefined;
  let reading: Promise<T> | undefined;

  const readAgain = async (): Promise<T> => {
    const started = now();
    try {
      const view = await read();
      const ended = now();
      last = { view, until: ended + Math.max(minMs, (ended - started) * REST) };
      return view;
    } finally {
      reading = undefined;
    }
  };

  return async () => {
    if (last !== undefined && now() < last.until) return last.view;
    reading ??= readAgain();
    return await reading;
  };
}
