import { abortError, orAborted } from '../json/abort.ts';

export interface Clock {
  /** Milliseconds since 1970; jumps when the system clock is changed. */
  readonly now: () => number;
  /** Milliseconds since some start; never goes backwards. */
  readonly monotonic: () => number;
  /** Calls `run` after `ms`, which may exceed the limit of setTimeout. Returns a function that cancels. */
  readonly after: (ms: number, run: () => void) => () => void;
}

/** setTimeout turns any longer delay into 1 ms, so longer delays use several timers. */
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
    return () => clearTimeout(timer);
  },
};

export async function sleep(clock: Clock, ms: number, signal: AbortSignal): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<undefined>();
  const cancel = clock.after(ms, () => resolve(undefined));
  await orAborted(promise, signal).finally(cancel);
}

/** Call `release`: otherwise `parent` keeps a reference to the signal. */
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
    abort: (reason) => controller.abort(reason),
    release: () => parent?.removeEventListener('abort', onAbort),
  };
}

export interface BackoffOptions {
  readonly baseMs: number;
  readonly maxMs: number;
}

/** Doubles from `baseMs` to `maxMs` with each failure in a row. Jitter keeps replicas apart. */
export function backoffMs(failures: number, { baseMs, maxMs }: BackoffOptions, random: () => number): number {
  // 2 ** 1024 is Infinity, which min() turns into maxMs.
  const full = Math.min(maxMs, baseMs * 2 ** Math.max(0, failures - 1));
  return full * (0.5 + random() / 2);
}

export type ServerClock = ReturnType<typeof createServerClock>;

/** The header has whole seconds and ages in transit: ignore smaller differences. */
const RESOLUTION_MS = 2_000;

export function createServerClock(clock: Pick<Clock, 'now' | 'monotonic'> = systemClock) {
  let seen: { readonly at: number; readonly server: number } | undefined;
  // Counts from the last response with the monotonic clock, so a change of the system clock does not matter.
  const server = (): number | undefined =>
    seen === undefined ? undefined : seen.server + clock.monotonic() - seen.at;
  const skewMs = (): number | undefined => {
    const time = server();
    return time === undefined ? undefined : clock.now() - time;
  };
  return {
    observe: (date: string): void => {
      const time = Date.parse(date);
      if (!Number.isNaN(time)) seen = { at: clock.monotonic(), server: time + 500 };
    },
    skewMs,
    /** The time of the API server, on which all replicas agree; the local time before the first response. */
    now: (): Date => {
      const skew = skewMs() ?? 0;
      return new Date(Math.abs(skew) < RESOLUTION_MS ? clock.now() : clock.now() - skew);
    },
  };
}

/** Calls `work` immediately, and then at most once per `ms`. Calls in between lead to one call at the end. */
export function atMostEvery(
  ms: number,
  work: () => void,
  { monotonic, after }: Pick<Clock, 'monotonic' | 'after'>,
  signal: AbortSignal,
): () => void {
  let last = Number.NEGATIVE_INFINITY;
  let cancel: (() => void) | undefined;
  const run = (): void => {
    cancel = undefined;
    last = monotonic();
    work();
  };
  signal.addEventListener('abort', () => cancel?.());
  return () => {
    if (cancel !== undefined || signal.aborted) return;
    const wait = last + ms - monotonic();
    if (wait <= 0) run();
    else cancel = after(wait, run);
  };
}
