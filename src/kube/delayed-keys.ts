import type { Clock } from './clock.ts';

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
