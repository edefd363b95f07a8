import { backoffMs, type BackoffOptions, systemClock, type Clock } from './clock.ts';
import { createDelayedKeys } from './delayed-keys.ts';

export interface WorkqueueMetrics {
  readonly depth: (keys: number) => void;
  readonly added: () => void;
  readonly queueDuration: (seconds: number) => void;
  readonly workDuration: (seconds: number) => void;
  readonly retried: () => void;
}

export interface WorkqueueLoad {
  readonly depth: number;
  readonly inFlight: number;
  /** The sum over all keys in flight. */
  readonly unfinishedWorkSeconds: number;
  readonly longestRunningProcessorSeconds: number;
}

export type Workqueue = ReturnType<typeof createWorkqueue>;

export interface WorkqueueOptions {
  readonly backoff?: BackoffOptions;
  readonly metrics?: WorkqueueMetrics;
  readonly clock?: Clock;
  readonly random?: () => number;
}

const BACKOFF: BackoffOptions = { baseMs: 1_000, maxMs: 300_000 };

/** Like client-go's queue of keys: each key is at most once in the queue and at most once in flight. */
export function createWorkqueue(options: WorkqueueOptions = {}) {
  const { backoff = BACKOFF, metrics, clock = systemClock, random = Math.random } = options;
  const waiting = new Map<string, number>();
  const inFlight = new Map<string, number>();
  /** Keys added while in flight. */
  const dirty = new Set<string>();
  const failures = new Map<string, number>();
  const workers: ((key: string | undefined) => void)[] = [];
  const drained = Promise.withResolvers<undefined>();
  let open = true;

  const start = (key: string, since: number): string => {
    const now = clock.monotonic();
    waiting.delete(key);
    inFlight.set(key, now);
    metrics?.depth(waiting.size);
    metrics?.queueDuration((now - since) / 1_000);
    return key;
  };

  const enqueue = (key: string): void => {
    const now = clock.monotonic();
    waiting.set(key, now);
    metrics?.depth(waiting.size);
    const worker = workers.shift();
    worker?.(start(key, now));
  };

  const add = (key: string): void => {
    if (!open) return;
    const waits = inFlight.has(key) ? dirty.has(key) : waiting.has(key);
    if (waits) return;
    metrics?.added();
    if (inFlight.has(key)) dirty.add(key);
    else enqueue(key);
  };

  const addAfter = (key: string, ms: number): void => {
    if (!open) return;
    if (Number.isNaN(ms)) throw new Error(`cannot add ${key} after NaN ms: give a number of milliseconds`);
    if (ms <= 0) {
      add(key);
      return;
    }
    later.set(key, clock.monotonic() + ms);
  };
  const later = createDelayedKeys(clock, add);

  return {
    add,
    addAfter,
    /** The backoff doubles with each call since `forget`. */
    retry: (key: string): number => {
      const count = (failures.get(key) ?? 0) + 1;
      failures.set(key, count);
      metrics?.retried();
      const ms = backoffMs(count, backoff, random);
      addAfter(key, ms);
      return ms;
    },
    forget: (key: string): void => {
      failures.delete(key);
    },
    drop: (key: string): void => {
      failures.delete(key);
      later.delete(key);
    },
    next: async (): Promise<string | undefined> => {
      if (!open) return undefined;
      const [first] = waiting;
      if (first !== undefined) return start(...first);
      return new Promise((resolve) => workers.push(resolve));
    },
    done: (key: string): void => {
      const began = inFlight.get(key);
      if (began === undefined) return;
      inFlight.delete(key);
      metrics?.workDuration((clock.monotonic() - began) / 1_000);
      if (dirty.delete(key) && open) enqueue(key);
      if (!open && inFlight.size === 0) drained.resolve(undefined);
    },
    load: (): WorkqueueLoad => {
      const running = [...inFlight.values()].map((began) => (clock.monotonic() - began) / 1_000);
      return {
        depth: waiting.size,
        inFlight: inFlight.size,
        unfinishedWorkSeconds: running.reduce((sum, seconds) => sum + seconds, 0),
        longestRunningProcessorSeconds: Math.max(0, ...running),
      };
    },
    /** Drops the waiting keys: the next process starts with a complete list. Resolves when no key is in flight. */
    shutdown: async (): Promise<void> => {
      open = false;
      waiting.clear();
      dirty.clear();
      failures.clear();
      later.clear();
      metrics?.depth(0);
      for (const worker of workers.splice(0)) worker(undefined);
      if (inFlight.size === 0) drained.resolve(undefined);
      await drained.promise;
    },
  };
}
