/** Time as kube/ sees it. A parameter, so that tests can hold it still. */
export interface Clock {
  /** Milliseconds since 1970; may jump when somebody sets the clock. */
  readonly now: () => number;
  /** Milliseconds since some start; never goes backwards. */
  readonly monotonic: () => number;
  /** Calls `run` after `ms`, however long that is. Returns how to take it back. */
  readonly after: (ms: number, run: () => void) => () => void;
}

/** setTimeout turns any longer delay into 1 ms, so longer ones are cut into pieces. */
const LONGEST_TIMER_MS = 2 ** 31 - 1;

export const systemClock: Clock = {
  now: () => Date.now(),
  monotonic: () => performance.now(),
  after: (ms, run) => {
    let timer: NodeJS.Timeout;
    const arm = (left: number): void => {
      const piece = Math.min(left, LONGEST_TIMER_MS);
      timer = setTimeout(
        () => {
          if (left > piece) arm(left - piece);
          else run();
        },
        Math.max(0, piece),
      );
    };
    arm(ms);
    return () => {
      clearTimeout(timer);
    };
  },
};

/** Waits for `ms`. @throws the reason of `signal` as soon as it aborts. */
export function sleep(clock: Clock, ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal.aborted) {
      reject(abortError(signal));
      return;
    }
    const onAbort = (): void => {
      cancel();
      reject(abortError(signal));
    };
    const cancel = clock.after(ms, () => {
      signal.removeEventListener('abort', onAbort);
      resolve();
    });
    signal.addEventListener('abort', onAbort, { once: true });
  });
}

/** The reason of an aborted signal, as an Error. */
export function abortError(signal: AbortSignal): Error {
  const reason: unknown = signal.reason;
  return reason instanceof Error ? reason : new Error('stopped', { cause: reason });
}

/** What `promise` gives. @throws the reason of `signal` as soon as it aborts; the promise goes on unheard */
export function orAborted<T>(promise: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const onAbort = (): void => {
      reject(abortError(signal));
    };
    if (signal.aborted) onAbort();
    else signal.addEventListener('abort', onAbort, { once: true });
    promise.then(resolve, reject).finally(() => {
      signal.removeEventListener('abort', onAbort);
    });
  });
}

/** A signal that also aborts with `parent`, and can be aborted by itself. `release` it, or `parent` keeps it for ever. */
export function linkedController(parent: AbortSignal | undefined): {
  readonly signal: AbortSignal;
  readonly abort: (reason: Error) => void;
  readonly release: () => void;
} {
  const controller = new AbortController();
  const onAbort = (): void => {
    if (parent !== undefined) controller.abort(abortError(parent));
  };
  if (parent?.aborted === true) onAbort();
  else parent?.addEventListener('abort', onAbort, { once: true });
  return {
    signal: controller.signal,
    abort: (reason) => {
      controller.abort(reason);
    },
    release: () => parent?.removeEventListener('abort', onAbort),
  };
}
