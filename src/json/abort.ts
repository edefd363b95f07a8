export function abortError(signal: AbortSignal): Error {
  const reason: unknown = signal.reason;
  return reason instanceof Error ? reason : new Error('stopped', { cause: reason });
}

/** The result of `promise`. @throws the error of `toThrow` as soon as `signal` aborts */
export function orAborted<T>(
  promise: Promise<T>,
  signal: AbortSignal | undefined,
  toThrow = abortError,
): Promise<T> {
  if (signal === undefined) return promise;
  return new Promise((resolve, reject) => {
    const onAbort = (): void => reject(toThrow(signal));
    if (signal.aborted) onAbort();
    else signal.addEventListener('abort', onAbort, { once: true });
    promise.then(resolve, reject).finally(() => signal.removeEventListener('abort', onAbort));
  });
}

export const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error));

export function messageWithCauses(error: unknown): string {
  if (!(error instanceof Error) || error.cause === undefined) return messageOf(error);
  return `${error.message}: ${messageWithCauses(error.cause)}`;
}

/** Removes tokens of webhook URLs, which the API server quotes in errors for users when a webhook does not answer. */
export const withoutPathTokens = (text: string): string =>
  text.replaceAll(/(\/(?:mutate|validate)\/)[0-9a-f]{32}(?=\/)/g, '$1…');
