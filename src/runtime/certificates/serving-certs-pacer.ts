/**
 * When the authority changes, thousands of serving certs are due at once. They take turns: a burst, then so many a second, the one
 * that ends first going first. What is missing or damaged never waits here.
 */
export interface Pacer {
  /** Whether the key may go ahead, once. If not, `release` calls for it when it is its turn. `endsAt`: when its cert ends. */
  readonly take: (key: string, endsAt: Date | undefined) => boolean;
  /** Somebody changed the object of this key: should it have to wait, it goes before all others. */
  readonly hurry: (key: string) => void;
  /** Nothing is due for the key any more. */
  readonly forget: (key: string) => void;
  readonly waiting: () => number;
  readonly stop: () => void;
}

export interface PacerOptions {
  readonly perSecond: number;
  readonly burst: number;
  /** Milliseconds since some start. */
  readonly monotonic: () => number;
  /** Calls back after so many milliseconds; returns how to take that back. */
  readonly after: (ms: number, run: () => void) => () => void;
  readonly release: (key: string) => void;
}

export function createPacer({ after, release, ...rate }: PacerOptions): Pacer {
  /** With the time by which the first goes first, in milliseconds. */
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

  const letGo = (): void => {
    cancel = undefined;
    for (let key = nextOf(waiting); key !== undefined && bucket.take(); key = nextOf(waiting)) {
      waiting.delete(key);
      released.add(key);
      release(key);
    }
    if (waiting.size > 0) cancel = after(bucket.waitMs(), letGo);
  };

  return {
    take: (key, endsAt) => {
      if (released.has(key) || (waiting.size === 0 && bucket.take())) {
        forget(key);
        return true;
      }
      waiting.set(key, hurried.has(key) ? 0 : (endsAt?.getTime() ?? 0));
      cancel ??= after(bucket.waitMs(), letGo);
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
  /** Whether there was a token. */
  readonly take: () => boolean;
  /** How long until there is one. */
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
