import { backoffMs, type BackoffOptions, type Clock, systemClock } from './clock.ts';

export interface WorkqueueMetrics {
  readonly depth: (keys: number) => void;
  readonly added: () => void;
  readonly queueDuration: (seconds: number) => void;
  readonly workDuration: (seconds: number) => void;
  readonly retried: () => void;
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
    load: () => {
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

interface Entry {
  readonly key: string;
  readonly at: number;
}

/** One timer serves all keys: there may be thousands. */
export function createDelayedKeys(clock: Pick<Clock, 'monotonic' | 'after'>, onDue: (key: string) => void) {
  const dates = new Map<string, number>();
  let entries: Entry[] = [];
  let armed: { readonly at: number; readonly cancel: () => void } | undefined;

  const arm = (): void => {
    const next = entries.at(-1);
    if (next === undefined || (armed !== undefined && armed.at <= next.at)) return;
    armed?.cancel();
    const { at } = next;
    armed = { at, cancel: clock.after(Math.max(0, at - clock.monotonic()), fire) };
  };

  const fire = (): void => {
    // A timer may be a fraction of a millisecond early by this clock.
    const until = Math.max(clock.monotonic(), armed?.at ?? -Infinity);
    armed = undefined;
    const due: string[] = [];
    for (let last = entries.at(-1); last !== undefined && last.at <= until; last = entries.at(-1)) {
      entries.pop();
      dates.delete(last.key);
      due.push(last.key);
    }
    arm();
    for (const key of due) onDue(key);
  };

  const remove = (key: string): void => {
    const at = dates.get(key);
    if (at === undefined || !dates.delete(key)) return;
    let index = indexOf(at, entries);
    while (entries[index]?.key !== key) index += 1; // other keys may have the same due time
    entries.splice(index, 1);
  };

  return {
    /** Schedules the key at `at`, by `Clock.monotonic`. An earlier schedule wins. */
    set: (key: string, at: number): void => {
      const before = dates.get(key);
      if (before !== undefined && before <= at) return;
      remove(key);
      dates.set(key, at);
      entries.splice(indexOf(at, entries), 0, { key, at });
      arm();
    },
    delete: remove,
    clear: (): void => {
      armed?.cancel();
      armed = undefined;
      entries = [];
      dates.clear();
    },
  };
}

function indexOf(at: number, entries: readonly Entry[]): number {
  let [low, high] = [0, entries.length];
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((entries[middle]?.at ?? 0) > at) low = middle + 1;
    else high = middle;
  }
  return low;
}

export type FairQueue<Value> = ReturnType<typeof createFairQueue<Value>>;

/** Values by group, for example by namespace, and by key. Groups take turns, so that none delays the others. */
export function createFairQueue<Value>() {
  const groups = new Map<string, Map<string, Value>>();
  let size = 0;
  const remove = (group: string, key: string): void => {
    const own = groups.get(group);
    if (own?.delete(key) !== true) return;
    size -= 1;
    if (own.size === 0) groups.delete(group);
  };
  /** Removes it, and lets all other groups have their turns first. */
  const take = (group: string, key: string): void => {
    remove(group, key);
    const own = groups.get(group);
    if (own === undefined) return;
    groups.delete(group);
    groups.set(group, own);
  };
  return {
    size: (): number => size,
    get: (group: string, key: string): Value | undefined => groups.get(group)?.get(key),
    set: (group: string, key: string, value: Value): void => {
      const own = groups.get(group) ?? new Map<string, Value>();
      if (!own.has(key)) size += 1;
      groups.set(group, own.set(key, value));
    },
    delete: remove,
    take,
    next: (isFree: (group: string) => boolean = () => true): readonly [string, Value] | undefined => {
      for (const [group, own] of groups) {
        if (!isFree(group)) continue;
        const [first] = own;
        if (first !== undefined) take(group, first[0]);
        return first;
      }
      return undefined;
    },
    /** In the order of their turns. */
    groups: (): ReadonlyMap<string, ReadonlyMap<string, Value>> => groups,
    clear: (): void => {
      groups.clear();
      size = 0;
    },
  };
}
