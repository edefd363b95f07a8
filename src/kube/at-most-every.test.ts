import { expect, test, vi } from 'vitest';

import { atMostEvery, systemClock } from './clock.ts';

test('a burst leads to one immediate call and one at the end', () => {
  vi.useFakeTimers();
  try {
    const stop = new AbortController();
    let calls = 0;
    const call = atMostEvery(1_000, () => calls++, systemClock, stop.signal);
    call();
    expect(calls).toBe(1);
    for (let i = 0; i < 500; i++) {
      vi.advanceTimersByTime(10);
      call();
    }
    expect(calls).toBe(6);
    vi.advanceTimersByTime(10_000);
    expect(calls).toBe(7);
    call();
    call();
    stop.abort();
    vi.advanceTimersByTime(10_000);
    expect(calls).toBe(8);
  } finally {
    vi.useRealTimers();
  }
});
