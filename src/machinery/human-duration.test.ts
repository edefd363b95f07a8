import { expect, test } from 'vitest';

import { ageOf, humanDuration } from './human-duration.ts';

const SECOND = 1000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
const YEAR = 365 * DAY;

test.each([
  [-2 * SECOND, '<invalid>'],
  [-1999, '0s'],
  [119 * SECOND, '119s'],
  [2 * MINUTE, '2m'],
  [3 * MINUTE + 2 * SECOND, '3m2s'],
  [10 * MINUTE + 5 * SECOND, '10m'],
  [7 * HOUR + 59 * MINUTE, '7h59m'],
  [47 * HOUR + 30 * MINUTE, '47h'],
  [2 * DAY + HOUR, '2d1h'],
  [8 * DAY + 23 * HOUR, '8d'],
  [6 * YEAR + 326 * DAY, '6y326d'],
  [9 * YEAR + 100 * DAY, '9y'],
])('%d ms are shown as %s', (ms, text) => {
  expect(humanDuration(ms)).toBe(text);
});

const now = new Date('2026-01-06T00:00:00Z');

test.each([
  [undefined, '<unknown>'],
  ['', '<unknown>'],
  ['2026-01-01T00:00:00Z', '5d'],
  ['2026-01-06T01:00:00+02:00', '60m'],
  ['yesterday', '<invalid>'],
  ['2026-01-01', '<invalid>'],
  ['2026-13-01T00:00:00Z', '<invalid>'],
])('the age of %s is %s', (timestamp, age) => {
  expect(ageOf(timestamp, now)).toBe(age);
});
