import { afterEach, beforeEach, describe, expect, onTestFinished, test, vi } from 'vitest';

import { EVENT_LOOP_LIMITS, TICK_MS, watchEventLoop } from './load-shedding.ts';

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval', 'setImmediate'] });
});
afterEach(() => {
  vi.useRealTimers();
});

function watched() {
  let now = 1_000_000;
  const seconds: number[] = [];
  const stopping = new AbortController();
  onTestFinished(() => {
    stopping.abort();
  });
  const loop = watchEventLoop(
    (longest) => seconds.push(longest),
    stopping.signal,
    EVENT_LOOP_LIMITS,
    () => now,
  );
  return {
    loop,
    seconds,
    /** Turns of these lengths, in sequence. */
    turns: (...took: readonly number[]) => {
      for (const ms of took) {
        now += ms + TICK_MS;
        vi.advanceTimersByTime(TICK_MS);
      }
    },
    /** Whether the loop is full this many milliseconds after the start of a turn, which then ends. */
    isFullAfter: (ms: number) => {
      expect(loop.isFull()).toBe(false);
      const before = now;
      now += ms;
      const isFull = loop.isFull();
      now = before;
      vi.advanceTimersByTime(0);
      return isFull;
    },
  };
}

const IDLE_SECOND = Array.from({ length: 20 }, () => 0);

describe('the event loop is overloaded', () => {
  test('after half a second of each turn, once turns take a second', () => {
    const { turns, isFullAfter } = watched();
    turns(1_000, 1_000);
    expect([499, 500, 499, 500].map(isFullAfter)).toEqual([false, true, false, true]);
  });

  test('never while turns are short, even if a single turn is long', () => {
    const { turns, isFullAfter } = watched();
    expect(isFullAfter(10_000)).toBe(false);
    turns(...IDLE_SECOND, 30_000);
    expect(isFullAfter(10_000)).toBe(false);
    turns(30_000, ...IDLE_SECOND);
    expect(isFullAfter(10_000)).toBe(false);
  });

  test('once turns take a second, until they take less than half of one: no flapping', () => {
    const { turns, isFullAfter } = watched();
    const full = [999, 1_000, 1_000, 700, 500, 499, 700, 999, 1_000, 1_000].map((ms) => {
      turns(...(ms < 950 ? [ms, ms] : [ms])); // at least one second
      return isFullAfter(10_000);
    });
    expect(full).toEqual([false, false, true, true, true, false, false, false, false, true]);
  });
});

test('the longest turn of each second is reported', () => {
  const { turns, seconds } = watched();
  turns(...IDLE_SECOND);
  turns(5, 200, 10, 700);
  turns(3_000);
  expect(seconds).toEqual([0, 0.7, 3]);
});
