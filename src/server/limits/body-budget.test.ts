import { expect, test, vi } from 'vitest';

import { createBodyBudget } from './body-budget.ts';

const never = () => {
  throw new Error('unexpected eviction');
};

function roomFor(bytes: number) {
  let now = 1_000_000;
  const { reserve } = createBodyBudget(bytes, () => now);
  return { reserve, pass: (ms: number) => (now += ms) };
}

test('released bytes are available again, any number of times', () => {
  const { reserve } = roomFor(10);
  const first = reserve('a', 10, never);
  expect(first).toBeDefined();
  expect(reserve('b', 1, never)).toBeUndefined();
  first?.release();
  first?.release();
  expect(reserve('b', 10, never)).toBeDefined();
  expect(reserve('c', 1, never)).toBeUndefined();
});

test('a client that announces a body and does not send it is evicted, the oldest first', () => {
  const { reserve, pass } = roomFor(10);
  const cutOff = vi.fn();
  reserve('a', 5, () => {
    cutOff('older');
  });
  pass(500);
  reserve('b', 5, () => {
    cutOff('younger');
  });
  expect(reserve('c', 5, never)).toBeUndefined(); // both bodies may still be arriving
  pass(500);
  expect(reserve('c', 5, never)).toBeDefined();
  expect(cutOff.mock.calls).toEqual([['older']]);
  expect(reserve('d', 5, never)).toBeUndefined();
});

test('without contention a body may arrive slowly', () => {
  const { reserve, pass } = roomFor(20);
  reserve('a', 5, never);
  pass(60_000);
  expect(reserve('b', 5, never)).toBeDefined();
});

test('a complete body is not evicted, however long its answer takes', () => {
  const { reserve, pass } = roomFor(10);
  const held = reserve('a', 10, never);
  held?.received();
  pass(60_000);
  expect(reserve('b', 5, never)).toBeUndefined();
});

test('an evicted connection that then closes releases nothing twice', () => {
  const { reserve, pass } = roomFor(10);
  const cut = reserve('a', 10, () => undefined);
  pass(1_000);
  expect(reserve('b', 10, never)).toBeDefined();
  cut?.release();
  expect(reserve('c', 10, never)).toBeUndefined();
});
