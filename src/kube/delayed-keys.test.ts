import fc from 'fast-check';
import { expect, onTestFinished, test, vi } from 'vitest';
import { systemClock, type Clock } from './clock.ts';
import { createDelayedKeys } from './workqueue.ts';

function start() {
  vi.useFakeTimers();
  onTestFinished(() => {
    vi.useRealTimers();
  });
  const due: string[] = [];
  let timers = 0;
  const clock: Pick<Clock, 'monotonic' | 'after'> = {
    monotonic: systemClock.monotonic,
    after: (ms, run) => {
      timers += 1;
      const cancel = systemClock.after(ms, () => {
        timers -= 1;
        run();
      });
      return () => {
        timers -= 1;
        cancel();
      };
    },
  };
  const keys = createDelayedKeys(clock, (key) => due.push(key));
  return { keys, due, timers: () => timers, after: (ms: number) => systemClock.monotonic() + ms };
}

test('ten thousand keys need one timer', () => {
  const { keys, due, timers, after } = start();
  for (let index = 0; index < 10_000; index += 1) keys.set(`key-${index}`, after(1_000 + (index % 100)));
  expect(timers()).toBe(1);
  vi.advanceTimersByTime(1_100);
  expect(due).toHaveLength(10_000);
  expect(timers()).toBe(0);
});

test('a key can be set again in its own callback', () => {
  const { due, after, ...rest } = start();
  let again = 3;
  const keys = createDelayedKeys(systemClock, (key) => {
    due.push(key);
    again -= 1;
    if (again > 0) keys.set(key, after(10));
  });
  keys.set('a', after(10));
  vi.advanceTimersByTime(100);
  expect(due).toEqual(['a', 'a', 'a']);
  expect(rest.timers()).toBe(0);
});

test('cleared keys are not released, and their timer is cancelled', () => {
  const { keys, due, timers, after } = start();
  keys.set('a', after(10));
  keys.clear();
  expect(timers()).toBe(0);
  keys.set('b', after(20));
  vi.advanceTimersByTime(100);
  expect(due).toEqual(['b']);
});

test('keys are released in the order of their dates', () => {
  fc.assert(
    fc.property(
      // 0 deletes the key.
      fc.array(fc.tuple(fc.integer({ min: 0, max: 9 }), fc.integer({ min: 0, max: 50 })), { maxLength: 60 }),
      (asked) => {
        vi.useFakeTimers();
        try {
          const begun = systemClock.monotonic();
          const seen: [string, number][] = [];
          const keys = createDelayedKeys(systemClock, (key) => {
            seen.push([key, Math.round(systemClock.monotonic() - begun)]);
          });
          const earliest = new Map<string, number>();
          for (const [index, ms] of asked) {
            if (ms === 0) {
              keys.delete(`k${index}`);
              earliest.delete(`k${index}`);
              continue;
            }
            keys.set(`k${index}`, begun + ms);
            earliest.set(`k${index}`, Math.min(ms, earliest.get(`k${index}`) ?? Infinity));
          }
          vi.advanceTimersByTime(60);
          expect(new Map(seen)).toEqual(earliest);
          expect(seen).toHaveLength(earliest.size);
          expect(seen.map(([, ms]) => ms)).toEqual(seen.map(([, ms]) => ms).toSorted((a, b) => a - b));
        } finally {
          vi.useRealTimers();
        }
      },
    ),
  );
});
