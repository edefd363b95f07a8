import { afterEach, beforeEach, describe, expect, onTestFinished, test, vi } from 'vitest';

import { EVENT_LOOP_LIMITS, watchEventLoop, type Delays } from './event-loop.ts';

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval', 'setImmediate'] });
});
afterEach(() => {
  vi.useRealTimers();
});

function watched() {
  let now = 0;
  let turns: readonly number[] = [];
  const delays: Delays = {
    mean: () => (turns.length === 0 ? undefined : turns.reduce((sum, turn) => sum + turn) / turns.length),
    longest: () => Math.max(0, ...turns),
    reset: () => (turns = []),
    stop: () => undefined,
  };
  const seconds: number[] = [];
  const stopping = new AbortController();
  onTestFinished(() => {
    stopping.abort();
  });
  const metrics = { eventLoopDelay: (longest: number) => seconds.push(longest) };
  const loop = watchEventLoop({ delays, now: () => now, metrics }, stopping.signal);
  return {
    loop,
    seconds,
    /** A second in which turns took so long; the last one has just ended. */
    second: (...took: readonly number[]) => {
      turns = took;
      vi.advanceTimersByTime(EVENT_LOOP_LIMITS.windowMs);
    },
    block: (ms: number) => (turns = [...turns, ms]),
    /** Whether it is full so many milliseconds after the begin of a turn, which then ends. */
    isFullAfter: (ms: number) => {
      expect(loop.isFull()).toBe(false);
      now += ms;
      const isFull = loop.isFull();
      vi.advanceTimersByTime(0);
      return isFull;
    },
  };
}

describe('a loop is full', () => {
  test('after half a second of each turn, once turns take a second', () => {
    const { second, isFullAfter } = watched();
    second(1_000);
    expect([499, 500, 499, 500].map(isFullAfter)).toEqual([false, true, false, true]);
  });

  test('never while turns are short, be one of many as long as it may', () => {
    const { second, isFullAfter } = watched();
    expect(isFullAfter(10_000)).toBe(false);
    second(0, 0, 2_000);
    expect(isFullAfter(10_000)).toBe(false);
  });

  test('from turns of a second on until they are shorter than half of one: it does not flap', () => {
    const { second, isFullAfter } = watched();
    const full = [999, 1_000, 600, 500, 499, 600, 999, 1_000].map((turn) => {
      second(turn);
      return isFullAfter(10_000);
    });
    expect(full).toEqual([false, true, true, true, false, false, false, true]);
  });

  test('as long as nothing else is known', () => {
    const { second, isFullAfter } = watched();
    second(1_000);
    second();
    expect(isFullAfter(500)).toBe(true);
  });
});

test('the longest turn of each second is reported', () => {
  const { second, seconds } = watched();
  second(5, 20, 10);
  second();
  expect(seconds).toEqual([0.02, 0]);
});

describe('the problem of a loop', () => {
  test('is that it was blocked, and is over after a second without', () => {
    const { loop, second, block } = watched();
    expect(loop.problem()).toBeUndefined();
    block(2_500); // nobody has looked yet
    expect(loop.problem()).toBe(
      'nothing was answered for 2.5 s: something needs all of the CPU, or there is too little of it',
    );
    second(2_500);
    expect(loop.problem()).toContain('2.5 s');
    second(3);
    expect(loop.problem()).toBeUndefined();
  });

  test('is none as long as clients still get their answers', () => {
    const { loop, second } = watched();
    second(1_900);
    expect(loop.problem()).toBeUndefined();
  });
});
