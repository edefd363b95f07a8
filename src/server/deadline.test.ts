import { expect, test } from 'vitest';

import { answerWithin } from './deadline.ts';

test.each([
  ['7s', 6_000],
  ['30s', 29_000],
  ['1s', 500],
  [undefined, 9_000],
  ['soon', 9_000],
  ['-3s', 9_000],
])('%s leaves %d ms', (timeout, expected) => {
  expect(answerWithin(timeout)).toBe(expected);
});
