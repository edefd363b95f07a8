import { expect, test } from 'vitest';
import { backoffMs } from './backoff.ts';

const options = { baseMs: 1_000, maxMs: 300_000 };

test('waits double up to the longest, and even after a thousand failures they are a number', () => {
  const longest = () => 0.999_999;
  expect([1, 2, 3, 9, 10, 5_000].map((n) => Math.round(backoffMs(n, options, longest)))).toEqual([
    1_000, 2_000, 4_000, 256_000, 300_000, 300_000,
  ]);
});

test('jitter spreads a wait over its upper half', () => {
  expect(backoffMs(1, options, () => 0)).toBe(500);
  expect(backoffMs(1, options, () => 0.5)).toBe(750);
});
