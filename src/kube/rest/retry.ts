import { type ApiError, NetworkError } from '../api-error.ts';
import { backoffMs } from '../clock.ts';

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
