/**
 * How long an answer may take. The API server says how long it waits in `?timeout=`, rounded up to a whole second
 * (k8s.io/apiserver pkg/util/webhook/client.go), so up to a second of what it says may not exist.
 */
const ROUNDING_MS = 1_000;
const FALLBACK_MS = 10_000;
/** The longest `timeoutSeconds` of a webhook is 30. */
const LONGEST_MS = 30_000;

/**
 * The time to answer in, in whole milliseconds. A `timeout` that cannot be read counts as the API server's default of 10 s, one
 * that no API server sends as the longest that one does.
 */
export function answerWithin(timeout: string | undefined): number {
  const seconds = /^(\d+(?:\.\d+)?)s$/.exec(timeout ?? '')?.[1];
  const waitsMs = seconds === undefined ? FALLBACK_MS : Math.min(Number(seconds) * 1_000, LONGEST_MS);
  // Of a single second half is left: late is as bad as never, but so is giving up at once.
  return Math.floor(Math.max(waitsMs - ROUNDING_MS, waitsMs / 2));
}
