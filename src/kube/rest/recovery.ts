import { ApiError, NetworkError } from '../api-error.ts';
import { abortError } from '../../json/abort.ts';
import { backoffMs, type Clock } from '../clock.ts';

/** With renewals and live reads, which never wait, a replica stays below 50 requests a second. */
export const TURN_MS = 25;
/** Longer than the longest backoff of a reflector while the API server is away, so that the last one is paced too. */
export const PACED_MS = 15_000;
export const AWAY_MS = 1_000;

const NOTHING = (): void => undefined;

/** The answers of an API server that does not know its users, roles and kinds yet. */
const STARTING: ReadonlySet<number> = new Set([401, 403, 404, 429]);

export interface OutageListener {
  readonly lost: (error: Error) => void;
  readonly back: (afterMs: number) => void;
}

/** Whether the API server may be away. If it is, all its clients retry. */
export const isInterruption = (error: unknown): error is NetworkError =>
  error instanceof NetworkError && error.kind !== 'malformed';

export type Recovery = ReturnType<typeof createRecovery>;

/** Paces requests that can wait after an outage of the API server: all clients' watches break at the same moment. */
export function createRecovery(clock: Pick<Clock, 'monotonic' | 'after'>) {
  const waiting = new Set<() => void>();
  const listeners = new Set<() => void>();
  let pacedUntil = -Infinity;
  let reachable = true;
  let silentSince = -Infinity;
  let answeredAt = -Infinity;
  let askedAt = -Infinity;
  let taken = 0;
  let nextAt = -Infinity;
  let isArmed = false;
  let outages: OutageListener = { lost: NOTHING, back: NOTHING };
  let isReported = false;
  let settledAt = -Infinity;
  let asking: Promise<boolean> | undefined;

  const pump = (): void => {
    const [first] = waiting;
    if (isArmed || first === undefined) return;
    // Only one request probes an unreachable API server. Requests to a dead address would queue and all arrive together.
    if (!reachable && taken > 0) return;
    const now = clock.monotonic();
    if (nextAt > now) {
      isArmed = true;
      clock.after(nextAt - now, () => {
        isArmed = false;
        pump();
      });
      return;
    }
    nextAt = now + TURN_MS;
    waiting.delete(first);
    taken += 1;
    first();
    pump();
  };

  const takeTurn = (): (() => void) => {
    let isOver = false;
    return () => {
      if (isOver) return;
      isOver = true;
      taken -= 1;
      pump();
    };
  };

  /** Whether the API server has been silent for `AWAY_MS`: another replica then serves urgent requests better. */
  const isAway = (): boolean => !reachable && clock.monotonic() - silentSince >= AWAY_MS;

  /** Right after an outage, old connections still break, so only a silence is another outage. */
  const reportLost = (error: Error): void => {
    if (isReported || (clock.monotonic() < settledAt && !isAway())) return;
    isReported = true;
    outages.lost(error);
  };
  const reportBack = (now: number): void => {
    if (!isReported) return;
    isReported = false;
    settledAt = now + PACED_MS;
    outages.back(now - silentSince);
  };

  return {
    onOutage: (listener: OutageListener): void => {
      outages = listener;
    },
    /** Whether the report of an outage covers this failure of a request. */
    covers: (error: unknown): boolean => {
      if (reachable && clock.monotonic() >= settledAt) return false;
      if (error instanceof ApiError) return error.code >= 500 || STARTING.has(error.code);
      return isInterruption(error);
    },
    /** @param since when the unanswered request was sent. If another one was answered later, the API server is just slow */
    interrupted: (error: Error, since = Infinity): void => {
      if (answeredAt >= since) return;
      const now = clock.monotonic();
      if (reachable) silentSince = Math.min(since, now);
      reachable = false;
      pacedUntil = now + PACED_MS;
      reportLost(error);
      if (!isAway()) return;
      for (const listener of listeners) listener();
      listeners.clear();
    },
    /** A watch ended early: one of several API servers may be shutting down, and all its clients reconnect. */
    dismissed: (): void => {
      pacedUntil = clock.monotonic() + PACED_MS;
    },
    answered: (): void => {
      answeredAt = clock.monotonic();
      if (reachable) return;
      reachable = true;
      pacedUntil = answeredAt + PACED_MS;
      reportBack(answeredAt);
      pump();
    },
    isAway,
    isLost: (): boolean => !reachable,
    /** Failures at the same time share a question. */
    ask: (question: () => Promise<boolean>): Promise<boolean> =>
      (asking ??= question().finally(() => (asking = undefined))),
    onceAway: (listener: () => void): (() => void) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    /** While the API server is away, one probe per `AWAY_MS` is allowed. */
    mayAsk: (): boolean => {
      if (!isAway()) return true;
      const now = clock.monotonic();
      if (now - askedAt < AWAY_MS) return false;
      askedAt = now;
      return true;
    },
    /** Call the returned function when the request has ended. @throws the reason of `signal` on abort */
    turn: (signal: AbortSignal): Promise<() => void> => {
      // When pacing is over, new requests do not queue behind waiting ones: frequent callers would queue every time.
      if (clock.monotonic() >= pacedUntil) return Promise.resolve(NOTHING);
      return new Promise((resolve, reject) => {
        if (signal.aborted) {
          reject(abortError(signal));
          return;
        }
        const onAbort = (): void => {
          waiting.delete(go);
          reject(abortError(signal));
        };
        const go = (): void => {
          signal.removeEventListener('abort', onAbort);
          resolve(takeTurn());
        };
        signal.addEventListener('abort', onAbort, { once: true });
        waiting.add(go);
        pump();
      });
    },
  };
}

export interface FailedAttempt {
  readonly error: ApiError | NetworkError;
  readonly idempotent: boolean;
  readonly reads: boolean;
  readonly failures: number;
}

const MAX_ASKED_RETRIES = 10;
/** Maximum retries without Retry-After: they bridge a restart or a broken connection, not an outage. */
const MAX_UNASKED_RETRIES = 3;
/** A longer value is hardly intended: an admission request has at most 30 s. */
const LONGEST_RETRY_AFTER_SECONDS = 60;

const TRANSIENT = new Set([429, 500, 502, 503, 504]);

/** Undefined: no retry. 429 and 5xx with Retry-After are retried for any verb: the server has not executed the request. */
export function planRetry(attempt: FailedAttempt, random: () => number): number | undefined {
  const { error, failures, idempotent, reads } = attempt;
  const unasked = (): number | undefined =>
    failures > MAX_UNASKED_RETRIES ? undefined : backoffMs(failures, { baseMs: 200, maxMs: 2_000 }, random);

  if (error instanceof NetworkError) return error.kind === 'connection' && reads ? unasked() : undefined;
  if (!TRANSIENT.has(error.code)) return undefined;
  if (error.retryAfterSeconds === undefined) return idempotent ? unasked() : undefined;
  if (failures > MAX_ASKED_RETRIES) return undefined;
  const seconds = Math.min(error.retryAfterSeconds, LONGEST_RETRY_AFTER_SECONDS);
  // Never earlier than requested, with jitter so that clients do not retry together. `Retry-After: 0` still waits.
  return Math.max(100, seconds * 1_000) * (1 + random() * 0.2);
}

/** `Retry-After` in seconds: a number, or an HTTP date (RFC 9110 §10.2.3). */
export function parseRetryAfter(header: string | undefined, now: number): number | undefined {
  if (header === undefined) return undefined;
  if (/^\s*\d+\s*$/.test(header)) return Number(header);
  const date = Date.parse(header);
  return Number.isNaN(date) ? undefined : Math.max(0, (date - now) / 1_000);
}
