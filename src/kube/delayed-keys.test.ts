import fc from 'fast-check';
import { expect, onTestFinished, test, vi } from 'vitest';
import { createCountedClock } from '../../test/support/kube/counted-clock.ts';
import { systemClock } from './clock.ts';
import { createDelayedKeys } from './workqueue.ts';

function start() {
  vi.useFakeTimers();
  onTestFinished(() => {
    vi.useRealTimers();
  });
  const due: string[] = [];
  const { clock, pending } = createCountedClock();
  const keys = createDelayedKeys(clock, (key) => due.push(key));
  return { clock, keys, due, pending, after: (ms: number) => systemClock.monotonic() + ms };
}

test('ten thousand keys need one timer', () => {
  const { keys, due, pending, after } = start();
  for (let index = 0; index < 10_000; index += 1) keys.set(`key-${index}`, after(1_000 + (index % 100)));
  expect(pending()).toBe(1);
  vi.advanceTimersByTime(1_100);
  expect(due).toHaveLength(10_000);
  expect(pending()).toBe(0);
});

test('a key can be set again in its own callback', () => {
  const { clock, due, pending, after } = start();
  let again = 3;
  const keys = createDelayedKeys(clock, (key) => {
    due.push(key);
    again -= 1;
    if (again > 0) keys.set(key, after(10));
  });
  keys.set('a', after(10));
  vi.advanceTimersByTime(100);
  expect(due).toEqual(['a', 'a', 'a']);
  expect(pending()).toBe(0);
});

test('cleared keys are not released, and their timer is cancelled', () => {
  const { keys, due, pending, after } = start();
  keys.set('a', after(10));
  keys.clear();
  expect(pending()).toBe(0);
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
