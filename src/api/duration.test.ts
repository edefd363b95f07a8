import { expect, test } from 'vitest';

import { parseDuration } from './duration.ts';

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

test.each([
  ['90d', 90 * DAY],
  ['2160h', 90 * DAY],
  ['1h30m', HOUR + 30 * MINUTE],
  ['1h0m0s', HOUR],
  ['0d', 0],
  ['', undefined],
  ['90', undefined],
  ['-1h', undefined],
  ['1.5h', undefined],
  ['1m1h', undefined],
  [' 1h', undefined],
  ['99999999d', undefined],
])('%j is %s ms', (text, milliseconds) => {
  expect(parseDuration(text)).toBe(milliseconds);
});
