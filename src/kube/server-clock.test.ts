import { expect, test } from 'vitest';
import { createServerClock } from './server-clock.ts';

const NOON = Date.parse('2026-11-21T12:00:00Z');

function skewed(byMs: number) {
  const time = { wall: NOON + byMs, monotonic: 5_000 };
  const clock = createServerClock({ now: () => time.wall, monotonic: () => time.monotonic });
  return { time, clock };
}

test('before the first answer our own clock holds', () => {
  const { clock } = skewed(600_000);
  expect(clock.skewMs()).toBeUndefined();
  expect(clock.now()).toEqual(new Date(NOON + 600_000));
});

test.each([600_000, -600_000])('a clock that is %d ms off is corrected to that of the API server', (skew) => {
  const { clock, time } = skewed(skew);
  clock.observe('Sat, 21 Nov 2026 12:00:00 GMT');
  expect(clock.skewMs()).toBe(skew - 500);
  expect(clock.now()).toEqual(new Date(NOON + 500));
  time.wall += 60_000;
  time.monotonic += 60_000;
  expect(clock.now()).toEqual(new Date(NOON + 60_500));
});

test('a step of our own clock between two answers does not show', () => {
  const { clock, time } = skewed(0);
  clock.observe('Sat, 21 Nov 2026 12:00:00 GMT');
  time.wall += 400 * 86_400_000;
  expect(clock.now()).toEqual(new Date(NOON + 500));
});

test('what is less than the header can tell is no difference', () => {
  const { clock } = skewed(1_700);
  clock.observe('Sat, 21 Nov 2026 12:00:00 GMT');
  expect(clock.now()).toEqual(new Date(NOON + 1_700));
});

test('an answer without a date, or with nonsense for one, changes nothing', () => {
  const { clock } = skewed(600_000);
  clock.observe('');
  clock.observe('yesterday');
  expect(clock.skewMs()).toBeUndefined();
});
