/**
 * Resolves with the result of `work`, or rejects if the signal aborts first: the API server must not wait for work that
 * never ends.
 */
export async function untilAborted<T>(
  work: Promise<T>,
  signal: AbortSignal,
  reason: () => Error,
): Promise<T> {
  const { promise: over, reject } = Promise.withResolvers<never>();
  const onAbort = () => reject(reason());
  signal.addEventListener('abort', onAbort, { once: true });
  if (signal.aborted) onAbort();
  try {
    return await Promise.race([work, over]);
  } finally {
    signal.removeEventListener('abort', onAbort);
  }
}
