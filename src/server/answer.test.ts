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
])('the timeout %s leaves %d ms', (timeout, expected) => {
  expect(answerWithin(timeout)).toBe(expected);
});

test.each(['31s', '3000000s', '99999999999999999999s'])(
  'the timeout %s, above the maximum of webhooks, counts as the maximum',
  (timeout) => {
    expect(answerWithin(timeout)).toBe(29_000); // a timer of more than 2^31 ms would fire at once
  },
);

test('fractions of a millisecond are dropped because timers need integers', () => {
  expect(answerWithin('1.23456789s')).toBe(617);
});
