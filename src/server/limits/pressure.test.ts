import { describe, expect, test, vi } from 'vitest';

import { mostBodyBytes, type PressureDeps } from './pressure.ts';
import { pressureOf } from '../../../test/support/server/pressure.ts';

const never = () => undefined;
const MIB = 1024 * 1024;
const REFUSED = (why: string) => ({ kind: 'refused', why });
const ADMITTED = { kind: 'admitted', body: undefined };

describe('a review is refused', () => {
  test('at the limit of concurrent reviews, from any entries', () => {
    const pressure = pressureOf({ reviews: 2 });
    expect([pressure.enter('a'), pressure.enter('b')]).toEqual([undefined, undefined]);
    expect([pressure.enter('c'), pressure.arrive('c', 1, never)]).toEqual(['reviews', REFUSED('reviews')]);
    pressure.leave('a');
    expect(pressure.arrive('c', 1, never)).toEqual(ADMITTED);
    expect(pressure.enter('c')).toBeUndefined();
  });

  test('at the share of its own entry, while other entries are admitted', () => {
    const pressure = pressureOf({ reviews: 4 });
    expect([pressure.enter('slow'), pressure.enter('slow')]).toEqual([undefined, undefined]);
    expect(pressure.arrive('slow', 1, never)).toEqual(REFUSED('entry'));
    expect(pressure.enter('slow')).toBe('entry');
    expect(pressure.arrive('other', 1, never)).toEqual(ADMITTED);
  });

  test('when the event loop has no time for it', () => {
    let isFull = true;
    const pressure = pressureOf({}, { eventLoop: { isFull: () => isFull } });
    expect(pressure.arrive('a', 1, never)).toEqual(REFUSED('event-loop'));
    isFull = false;
    expect(pressure.arrive('a', 1, never)).toEqual(ADMITTED);
  });

  test('when memory for a large body is missing; small bodies need none', () => {
    const pressure = pressureOf({ bodyBytes: 16 * MIB });
    const first = pressure.arrive('a', 8 * MIB, never);
    expect(first.kind).toBe('admitted');
    expect(pressure.arrive('a', 8 * MIB, never)).toEqual(REFUSED('bodies'));
    expect(pressure.arrive('a', 16 * 1024, never)).toEqual(ADMITTED);
    if (first.kind === 'admitted') first.body?.release();
    expect(pressure.arrive('a', 8 * MIB, never).kind).toBe('admitted');
  });

  test('because of concurrency rather than a late event loop if both apply', () => {
    const pressure = pressureOf({ reviews: 1 }, { eventLoop: { isFull: () => true } });
    expect(pressure.arrive('a', 1, never)).toEqual(REFUSED('event-loop'));
    pressure.enter('a');
    expect(pressure.arrive('a', 1, never)).toEqual(REFUSED('reviews'));
  });
});

test('a body that is still arriving does not count as a concurrent review', () => {
  const pressure = pressureOf({ reviews: 1 });
  expect([1, 2, 3].map(() => pressure.arrive('a', 1, never))).toEqual([ADMITTED, ADMITTED, ADMITTED]);
  expect(pressure.enter('b')).toBeUndefined();
});

test('refusals are counted, and logged at intervals', () => {
  let now = 0;
  const warn = vi.fn<PressureDeps['log']['warn']>();
  const refusedReview = vi.fn<PressureDeps['metrics']['refusedReview']>();
  let inFlight = () => -1;
  const pressure = pressureOf(
    { reviews: 1 },
    {
      metrics: { refusedReview, reviewsInFlight: (count) => (inFlight = count) },
      log: { warn },
      now: () => now,
    },
  );
  expect(inFlight()).toBe(0);
  pressure.enter('a');
  expect(inFlight()).toBe(1);
  for (let time = 0; time < 20; time += 1) {
    pressure.enter('b');
    now += 1_000;
  }
  expect(refusedReview.mock.calls).toEqual(Array.from({ length: 20 }, () => ['reviews']));
  expect(warn.mock.calls.map(([fields]) => fields)).toEqual([
    { refused: { reviews: 1 } },
    { refused: { reviews: 10 } },
  ]);
});

test('large bodies may use an eighth of the heap, and at least four of the maximum size fit', () => {
  expect(mostBodyBytes(64 * MIB)).toBe(32 * MIB);
  expect(mostBodyBytes(1024 * MIB)).toBe(128 * MIB);
});
