import type { Clock } from '../../kube/clock.ts';

interface PacerOptions extends Pick<Clock, 'monotonic' | 'after'> {
  readonly perSecond: number;
  readonly burst: number;
  readonly release: (key: string) => void;
}

export type IssuePacer = ReturnType<typeof createIssuePacer>;

/**
 * A change of the authority makes thousands of serving certs due at once. The pacer admits a burst, then a fixed rate,
 * and the cert that ends first goes first. Missing or damaged certs do not pass through it.
 */
export function createIssuePacer({ after, release, ...rate }: PacerOptions) {
  /** Each key with the end of its cert, in milliseconds. The earliest goes first. */
  const waiting = new Map<string, number>();
  const released = new Set<string>();
  const hurried = new Set<string>();
  const bucket = createTokenBucket(rate);
  let cancel: (() => void) | undefined;

  const forget = (key: string): void => {
    waiting.delete(key);
    released.delete(key);
    hurried.delete(key);
  };

  const releaseDue = (): void => {
    cancel = undefined;
    for (let key = nextOf(waiting); key !== undefined && bucket.take(); key = nextOf(waiting)) {
      waiting.delete(key);
      released.add(key);
      release(key);
    }
    if (waiting.size > 0) cancel = after(bucket.waitMs(), releaseDue);
  };

  return {
    /**
     * Returns whether the key may proceed now. If not, the pacer calls `release` when the key may proceed.
     * @param endsAt the end of its cert
     */
    take: (key: string, endsAt: Date | undefined): boolean => {
      if (released.has(key) || (waiting.size === 0 && bucket.take())) {
        forget(key);
        return true;
      }
      waiting.set(key, hurried.has(key) ? 0 : (endsAt?.getTime() ?? 0));
      cancel ??= after(bucket.waitMs(), releaseDue);
      return false;
    },
    /** A user edited the object of this key: the key goes before all other waiting keys. */
    hurry: (key: string): void => {
      hurried.add(key);
      if (waiting.has(key)) waiting.set(key, 0);
    },
    forget,
    waiting: () => waiting.size,
    stop: (): void => {
      cancel?.();
      waiting.clear();
    },
  };
}

function createTokenBucket({ perSecond, burst, monotonic }: Omit<PacerOptions, 'after' | 'release'>) {
  let tokens = burst;
  let refilledAt = monotonic();
  const refill = (): void => {
    const now = monotonic();
    tokens = Math.min(burst, tokens + ((now - refilledAt) / 1_000) * perSecond);
    refilledAt = now;
  };
  return {
    take: (): boolean => {
      refill();
      if (tokens < 1) return false;
      tokens -= 1;
      return true;
    },
    /** Milliseconds until the next token. */
    waitMs: (): number => {
      refill();
      return Math.max(0, Math.ceil(((1 - tokens) / perSecond) * 1_000));
    },
  };
}

function nextOf(waiting: ReadonlyMap<string, number>): string | undefined {
  let next: string | undefined;
  let earliest = Number.POSITIVE_INFINITY;
  for (const [key, time] of waiting) {
    if (next === undefined || time < earliest) [next, earliest] = [key, time];
  }
  return next;
}
