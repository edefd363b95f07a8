import type { Clock } from '../../kube/clock.ts';
import { createFairQueue } from '../../kube/workqueue.ts';

interface PacerOptions extends Pick<Clock, 'monotonic' | 'after'> {
  readonly perSecond: number;
  readonly burst: number;
  readonly release: (key: string) => void;
}

export type IssuePacer = ReturnType<typeof createIssuePacer>;

/** Thousands of certs can become due together: admits a burst, then a fixed rate. Missing or damaged certs do not wait. */
export function createIssuePacer({ after, release, ...rate }: PacerOptions) {
  const queue = createLanes();
  const released = new Set<string>();
  const bucket = createTokenBucket(rate);
  let cancel: (() => void) | undefined;

  const forget = (key: string): void => {
    queue.forget(key);
    released.delete(key);
  };

  const releaseDue = (): void => {
    cancel = undefined;
    while (queue.size() > 0 && bucket.take()) {
      const key = queue.next();
      if (key === undefined) return;
      released.add(key);
      release(key);
    }
    if (queue.size() > 0) cancel = after(bucket.waitMs(), releaseDue);
  };

  return {
    /** Whether the key may proceed now. Otherwise `release` is called when it may. `endsAt`: the end of its cert. */
    take: (key: string, endsAt: Date | undefined): boolean => {
      if (released.has(key) || (queue.size() === 0 && bucket.take())) {
        forget(key);
        return true;
      }
      queue.add(key, endsAt?.getTime() ?? 0);
      cancel ??= after(bucket.waitMs(), releaseDue);
      return false;
    },
    hurry: queue.hurry,
    forget,
    waiting: queue.size,
    stop: (): void => {
      cancel?.();
      queue.clear();
    },
  };
}

/** Three lanes take turns, so that no tenant delays others: edited keys, the cert that ends first, and all namespaces in turn. */
function createLanes() {
  /** Each key with the end of its cert, in milliseconds. */
  const waiting = createFairQueue<number>();
  const hurried = new Set<string>();
  let turn = 0;

  const namespaces = () => [...waiting.groups().values()];
  const firstEdited = (): string | undefined => {
    if (hurried.size === 0) return undefined;
    for (const keys of namespaces()) for (const key of keys.keys()) if (hurried.has(key)) return key;
    return undefined;
  };
  const firstOfNamespace = (): string | undefined => firstToEnd(namespaces().slice(0, 1));
  const lanes = [firstEdited, () => firstToEnd(namespaces()), firstOfNamespace];

  return {
    add: (key: string, endsAt: number): void => waiting.set(namespaceOf(key), key, endsAt),
    hurry: (key: string): void => void hurried.add(key),
    next: (): string | undefined => {
      const inTurn = lanes.map((_, index) => lanes[(turn + index) % lanes.length]);
      turn++;
      const key = inTurn.reduce<string | undefined>((found, lane) => found ?? lane?.(), undefined);
      if (key === undefined) return undefined;
      waiting.take(namespaceOf(key), key);
      hurried.delete(key);
      return key;
    },
    forget: (key: string): void => {
      waiting.delete(namespaceOf(key), key);
      hurried.delete(key);
    },
    size: waiting.size,
    clear: (): void => {
      waiting.clear();
      hurried.clear();
    },
  };
}

const namespaceOf = (key: string): string => key.slice(0, Math.max(0, key.indexOf('/')));

export function createTokenBucket({ perSecond, burst, monotonic }: Omit<PacerOptions, 'after' | 'release'>) {
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
    waitMs: (): number => {
      refill();
      return Math.max(0, Math.ceil(((1 - tokens) / perSecond) * 1_000));
    },
  };
}

function firstToEnd(namespaces: Iterable<ReadonlyMap<string, number>>): string | undefined {
  let first: string | undefined;
  let earliest = Number.POSITIVE_INFINITY;
  for (const keys of namespaces)
    for (const [key, endsAt] of keys)
      if (first === undefined || endsAt < earliest) [first, earliest] = [key, endsAt];
  return first;
}
