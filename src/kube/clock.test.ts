import { expect, test } from 'vitest';
import { createServerClock, backoffMs } from './clock.ts';

const NOON = Date.parse('2026-11-21T12:00:00Z');

function skewed(byMs: number) {
  const time = { wall: NOON + byMs, monotonic: 5_000 };
  const clock = createServerClock({ now: () => time.wall, monotonic: () => time.monotonic });
  return { time, clock };
}

test.each([600_000, -600_000])('a clock that is %d ms off is corrected by the API server', (skew) => {
  const { clock, time } = skewed(skew);
  clock.observe('Sat, 21 Nov 2026 12:00:00 GMT');
  expect(clock.skewMs()).toBe(skew - 500);
  expect(clock.now()).toEqual(new Date(NOON + 500));
  time.wall += 60_000;
  time.monotonic += 60_000;
  expect(clock.now()).toEqual(new Date(NOON + 60_500));
});

test('a step of the local clock between two responses does not matter', () => {
  const { clock, time } = skewed(0);
  clock.observe('Sat, 21 Nov 2026 12:00:00 GMT');
  time.wall += 400 * 86_400_000;
  expect(clock.now()).toEqual(new Date(NOON + 500));
});

test('a response without a valid date changes nothing', () => {
  const { clock } = skewed(600_000);
  clock.observe('');
  clock.observe('yesterday');
  expect(clock.skewMs()).toBeUndefined();
});

const options = { baseMs: 1_000, maxMs: 300_000 };

test('delays double up to the maximum, and stay finite after a thousand failures', () => {
  const longest = () => 0.999_999;
  expect([1, 2, 3, 9, 10, 5_000].map((n) => Math.round(backoffMs(n, options, longest)))).toEqual([
    1_000, 2_000, 4_000, 256_000, 300_000, 300_000,
  ]);
});
