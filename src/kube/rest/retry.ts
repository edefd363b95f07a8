import { type ApiError, NetworkError } from '../api-error.ts';
import { backoffMs } from '../clock.ts';

export interface FailedAttempt {
  readonly error: ApiError | NetworkError;
  /** Whether doing it twice is the same as doing it once. */
  readonly idempotent: boolean;
  /** Whether it only reads. */
  readonly reads: boolean;
  /** 1 after the first failure. */
  readonly failures: number;
}

/** As client-go: a server that says "later" more often than this does not mean it. */
const MAX_ASKED_RETRIES = 10;
/** Nobody asked for these: they bridge a restart or a broken connection, not an outage. */
const MAX_UNASKED_RETRIES = 3;
/** Nobody means a longer one; an admission request has at most 30 s. */
const LONGEST_RETRY_AFTER_SECONDS = 60;

const TRANSIENT = new Set([429, 500, 502, 503, 504]);

/**
 * How long to wait before the request is sent again, in milliseconds; undefined when it must not be.
 * 429 and 5xx with Retry-After: any verb, because whoever sets the header has not carried the request out.
 * @see https://github.com/kubernetes/client-go/blob/master/rest/with_retry.go
 */
export function planRetry(attempt: FailedAttempt, random: () => number): number | undefined {
  const { error, failures, idempotent, reads } = attempt;
  const unasked = (): number | undefined =>
    failures > MAX_UNASKED_RETRIES ? undefined : backoffMs(failures, { baseMs: 200, maxMs: 2_000 }, random);

  if (error instanceof NetworkError) return error.kind === 'connection' && reads ? unasked() : undefined;
  if (!TRANSIENT.has(error.code)) return undefined;
  if (error.retryAfterSeconds === undefined) return idempotent ? unasked() : undefined;
  if (failures > MAX_ASKED_RETRIES) return undefined;
  const seconds = Math.min(error.retryAfterSeconds, LONGEST_RETRY_AFTER_SECONDS);
  // Never earlier than asked, and not all at the same moment. `Retry-After: 0` is no licence to spin.
  return Math.max(100, seconds * 1_000) * (1 + random() * 0.2);
}

/** `Retry-After` in seconds: a number, or an HTTP date (RFC 9110 §10.2.3). */
export function parseRetryAfter(header: string | undefined, now: number): number | undefined {
  if (header === undefined) return undefined;
  if (/^\s*\d+\s*$/.test(header)) return Number(header);
  const date = Date.parse(header);
  return Number.isNaN(date) ? undefined : Math.max(0, (date - now) / 1_000);
}
