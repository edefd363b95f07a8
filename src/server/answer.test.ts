import { expect, test } from 'vitest';

import { answerWithin } from './answer.ts';

test.each([
  ['7s', 6_000],
  ['30s', 29_000],
  ['1s', 500],
  ['0.5s', 250],
  [undefined, 9_000],
  ['', 9_000],
  ['soon', 9_000],
  ['-3s', 9_000],
  ['1m30s', 9_000],
])('%s leaves %d ms', (timeout, expected) => {
  expect(answerWithin(timeout)).toBe(expected);
});

test.each(['31s', '3000000s', '99999999999999999999s'])(
  '%s, longer than any webhook waits, leaves what the longest does',
  (timeout) => {
    expect(answerWithin(timeout)).toBe(29_000); // a timer of more than 2^31 ms would fire at once
  },
);

test('fractions of a millisecond are left out: timers take whole ones', () => {
  expect(answerWithin('1.23456789s')).toBe(617);
});
