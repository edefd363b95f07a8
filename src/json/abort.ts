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

/** An error can be its own cause. */
const MOST_CAUSES = 5;

/** `fetch failed: connect ECONNREFUSED 127.0.0.1:80`. */
export function messageWithCauses(error: unknown): string {
  const messages = new Set<string>();
  let current = error;
  for (let left = MOST_CAUSES; left > 0 && current !== undefined; left -= 1) {
    if (current instanceof Error || typeof current !== 'object') messages.add(textOf(current));
    current = current instanceof Error ? current.cause : undefined;
  }
  return [...messages].join(': ');
}

/** Node's errors of several connection attempts have no message. Authors may throw errors whose message is no text. */
function textOf(error: unknown): string {
  if (!(error instanceof Error)) return messageOf(error);
  const { message, name }: { readonly message: unknown; readonly name: string } = error;
  const text = typeof message === 'string' ? message.trim() : '';
  if (error instanceof AggregateError) {
    const parts = [...new Set(error.errors.map(messageOf))];
    return [...(text === '' ? [] : [text]), parts.join(', ')].join(': ');
  }
  return text === '' ? name : text;
}

/** Removes tokens of webhook URLs, which the API server quotes in errors for users when a webhook does not answer. */
export const withoutPathTokens = (text: string): string =>
  text.replaceAll(/(\/(?:mutate|validate)\/)[0-9a-f]{32}(?=\/)/g, '$1…');
