export interface BackoffOptions {
  /** The first wait, in milliseconds. */
  readonly baseMs: number;
  /** The longest wait, in milliseconds. */
  readonly maxMs: number;
}

/**
 * How long to wait after the nth failure in a row (1 = the first), in milliseconds: doubling from `baseMs` to `maxMs`.
 * Spread over the upper half, so that replicas that failed together do not come back together.
 * @param random in [0, 1)
 */
export function backoffMs(failures: number, { baseMs, maxMs }: BackoffOptions, random: () => number): number {
  // 2 ** 1024 is Infinity, which min() turns into maxMs.
  const full = Math.min(maxMs, baseMs * 2 ** Math.max(0, failures - 1));
  return full * (0.5 + random() / 2);
}
