import { expect, test, vi } from 'vitest';

import { createBodyBudget } from './body-budget.ts';

const never = () => {
  throw new Error('it was cut off');
};

function roomFor(bytes: number) {
  let now = 0;
  const room = createBodyBudget(bytes, () => now);
  return { room, pass: (ms: number) => (now += ms) };
}

test('what is released is room again, however often it is', () => {
  const { room } = roomFor(10);
  const first = room.reserve('a', 10, never);
  expect(first).toBeDefined();
  expect(room.reserve('b', 1, never)).toBeUndefined();
  first?.release();
  first?.release();
  expect(room.reserve('b', 10, never)).toBeDefined();
  expect(room.reserve('c', 1, never)).toBeUndefined();
});

test('who announced a body and does not send it makes way for others, the oldest first', () => {
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

test('while there is room a body may take its time', () => {
  const { room, pass } = roomFor(20);
  room.reserve('a', 5, never);
  pass(60_000);
  expect(room.reserve('b', 5, never)).toBeDefined();
});

test('a body that is there is not cut off, however long its answer takes', () => {
  const { room, pass } = roomFor(10);
  const held = room.reserve('a', 10, never);
  held?.received();
  pass(60_000);
  expect(room.reserve('b', 5, never)).toBeUndefined();
});

test('a connection that was cut off and then closes gives nothing back twice', () => {
  const { room, pass } = roomFor(10);
  const cut = room.reserve('a', 10, () => undefined);
  pass(1_000);
  expect(room.reserve('b', 10, never)).toBeDefined();
  cut?.release();
  expect(room.reserve('c', 10, never)).toBeUndefined();
});
