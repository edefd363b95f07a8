import { afterEach, beforeEach, describe, expect, onTestFinished, test, vi } from 'vitest';

import { EVENT_LOOP_LIMITS, TICK_MS, watchEventLoop } from './event-loop.ts';

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval', 'setImmediate'] });
});
afterEach(() => {
  vi.useRealTimers();
});

function watched() {
  let now = 0;
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
    pass: (ms: number) => (now += ms),
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

  test('never while turns are short, whatever a single turn takes', () => {
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

describe('the health problem of the event loop', () => {
  test('says that it was blocked, and ends after a second without that', () => {
    const { loop, turns, pass } = watched();
    expect(loop.problem()).toBeUndefined();
    pass(2_550); // before the next tick
    expect(loop.problem()).toBe(
      'nothing was answered for 2.5 s: something needs all of the CPU, or there is too little of it',
    );
    turns(0);
    expect(loop.problem()).toContain('2.5 s');
    turns(...IDLE_SECOND);
    expect(loop.problem()).toBeUndefined();
  });

  test('is absent as long as clients still get their answers', () => {
    const { loop, turns } = watched();
    turns(1_900, 1_900, 1_900);
    expect(loop.problem()).toBeUndefined();
  });
});
