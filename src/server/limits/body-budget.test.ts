import { expect, test, vi } from 'vitest';

import { createBodyBudget } from './body-budget.ts';

const never = () => {
  throw new Error('unexpected eviction');
};

function roomFor(bytes: number) {
  let now = 0;
  const room = createBodyBudget(bytes, () => now);
  return { room, pass: (ms: number) => (now += ms) };
}

test('released bytes are available again, any number of times', () => {
  const { room } = roomFor(10);
  const first = room.reserve('a', 10, never);
  expect(first).toBeDefined();
  expect(room.reserve('b', 1, never)).toBeUndefined();
  first?.release();
  first?.release();
  expect(room.reserve('b', 10, never)).toBeDefined();
  expect(room.reserve('c', 1, never)).toBeUndefined();
});

test('a client that announces a body and does not send it is evicted, the oldest first', () => {
  const { room, pass } = roomFor(10);
  const cutOff = vi.fn();
  room.reserve('a', 5, () => {
    cutOff('older');
  });
  pass(500);
  room.reserve('b', 5, () => {
    cutOff('younger');
  });
  expect(room.reserve('c', 5, never)).toBeUndefined(); // both bodies may still be arriving
  pass(500);
  expect(room.reserve('c', 5, never)).toBeDefined();
  expect(cutOff.mock.calls).toEqual([['older']]);
  expect(room.reserve('d', 5, never)).toBeUndefined();
});

test('without contention a body may arrive slowly', () => {
  const { room, pass } = roomFor(20);
  room.reserve('a', 5, never);
  pass(60_000);
  expect(room.reserve('b', 5, never)).toBeDefined();
});

test('a complete body is not evicted, however long its answer takes', () => {
  const { room, pass } = roomFor(10);
  const held = room.reserve('a', 10, never);
  held?.received();
  pass(60_000);
  expect(room.reserve('b', 5, never)).toBeUndefined();
});

test('an evicted connection that then closes releases nothing twice', () => {
  const { room, pass } = roomFor(10);
  const cut = room.reserve('a', 10, () => undefined);
  pass(1_000);
  expect(room.reserve('b', 10, never)).toBeDefined();
  cut?.release();
  expect(room.reserve('c', 10, never)).toBeUndefined();
});
