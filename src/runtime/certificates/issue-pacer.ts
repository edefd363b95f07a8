/**
 * A change of the authority makes thousands of serving certs due at once. The pacer admits a burst, then a fixed rate,
 * and the cert that ends first goes first. Missing or damaged certs do not pass through it.
 */
export interface IssuePacer {
  /**
   * Returns whether the key may proceed now. If not, the pacer calls `release` when the key may proceed.
   * @param endsAt the end of its cert
   */
  readonly take: (key: string, endsAt: Date | undefined) => boolean;
  /** A user edited the object of this key: the key goes before all other waiting keys. */
  readonly hurry: (key: string) => void;
  /** The key is no longer due. */
  readonly forget: (key: string) => void;
  readonly waiting: () => number;
  readonly stop: () => void;
}

export interface PacerOptions {
  readonly perSecond: number;
  readonly burst: number;
  /** Milliseconds since some start. */
  readonly monotonic: () => number;
  /** Calls `run` after `ms` milliseconds. Returns a function that cancels the call. */
  readonly after: (ms: number, run: () => void) => () => void;
  readonly release: (key: string) => void;
}

export function createIssuePacer({ after, release, ...rate }: PacerOptions): IssuePacer {
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
    take: (key, endsAt) => {
      if (released.has(key) || (waiting.size === 0 && bucket.take())) {
        forget(key);
        return true;
      }
      waiting.set(key, hurried.has(key) ? 0 : (endsAt?.getTime() ?? 0));
      cancel ??= after(bucket.waitMs(), releaseDue);
      return false;
    },
    hurry: (key) => {
      hurried.add(key);
      if (waiting.has(key)) waiting.set(key, 0);
    },
    forget,
    waiting: () => waiting.size,
    stop: () => {
      cancel?.();
      waiting.clear();
    },
  };
}

interface TokenBucket {
  /** Returns whether there was a token. */
  readonly take: () => boolean;
  /** Milliseconds until the next token. */
  readonly waitMs: () => number;
}

function createTokenBucket({
  perSecond,
  burst,
  monotonic,
}: Pick<PacerOptions, 'perSecond' | 'burst' | 'monotonic'>): TokenBucket {
  let tokens = burst;
  let refilledAt = monotonic();
  const refill = (): void => {
    const now = monotonic();
    tokens = Math.min(burst, tokens + ((now - refilledAt) / 1_000) * perSecond);
    refilledAt = now;
  };
  return {
    take: () => {
      refill();
      if (tokens < 1) return false;
      tokens -= 1;
      return true;
    },
    waitMs: () => {
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
