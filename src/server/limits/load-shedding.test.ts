import { describe, expect, test, vi } from 'vitest';

import type { Log } from '../../log.ts';
import type { Metrics } from '../metrics/metrics.ts';
import type { ScrapeSources } from '../metrics/scraped.ts';
import { maxBodyBytes } from './load-shedding.ts';
import { loadSheddingOf } from '../../../test/support/server/load-shedding.ts';

const never = () => undefined;
const MIB = 1024 * 1024;
const REFUSED = (why: string) => ({ kind: 'refused', why });
const ADMITTED = { kind: 'admitted', body: undefined };

describe('a review is refused', () => {
  test('at the limit of concurrent reviews, from any entries', () => {
    const shedding = loadSheddingOf({ reviews: 2 });
    expect([shedding.enter('a'), shedding.enter('b')]).toEqual([undefined, undefined]);
    expect([shedding.enter('c'), shedding.arrive('c', 1, never)]).toEqual(['reviews', REFUSED('reviews')]);
    shedding.leave('a');
    expect(shedding.arrive('c', 1, never)).toEqual(ADMITTED);
    expect(shedding.enter('c')).toBeUndefined();
  });

  test('at the share of its own entry, while other entries are admitted', () => {
    const shedding = loadSheddingOf({ reviews: 4 });
    expect([shedding.enter('slow'), shedding.enter('slow')]).toEqual([undefined, undefined]);
    expect(shedding.arrive('slow', 1, never)).toEqual(REFUSED('entry'));
    expect(shedding.enter('slow')).toBe('entry');
    expect(shedding.arrive('other', 1, never)).toEqual(ADMITTED);
  });

  test('when the event loop has no time for it', () => {
    let isFull = true;
    const shedding = loadSheddingOf({}, { isLoopFull: () => isFull });
    expect(shedding.arrive('a', 1, never)).toEqual(REFUSED('event-loop'));
    isFull = false;
    expect(shedding.arrive('a', 1, never)).toEqual(ADMITTED);
  });

  test('when memory for a large body is missing; small bodies need none', () => {
    const shedding = loadSheddingOf({ bodyBytes: 16 * MIB });
    const first = shedding.arrive('a', 8 * MIB, never);
    expect(first.kind).toBe('admitted');
    expect(shedding.arrive('a', 8 * MIB, never)).toEqual(REFUSED('bodies'));
    expect(shedding.arrive('a', 16 * 1024, never)).toEqual(ADMITTED);
    if (first.kind === 'admitted') first.body?.release();
    expect(shedding.arrive('a', 8 * MIB, never).kind).toBe('admitted');
  });

  test('because of concurrency rather than a late event loop if both apply', () => {
    const shedding = loadSheddingOf({ reviews: 1 }, { isLoopFull: () => true });
    expect(shedding.arrive('a', 1, never)).toEqual(REFUSED('event-loop'));
    shedding.enter('a');
    expect(shedding.arrive('a', 1, never)).toEqual(REFUSED('reviews'));
  });
});

test('a body that is still arriving does not count as a concurrent review', () => {
  const shedding = loadSheddingOf({ reviews: 1 });
  expect([1, 2, 3].map(() => shedding.arrive('a', 1, never))).toEqual([ADMITTED, ADMITTED, ADMITTED]);
  expect(shedding.enter('b')).toBeUndefined();
});

test('refusals are counted, and logged at intervals', () => {
  let now = 0;
  const warn = vi.fn<Log['warn']>();
  const refusedReview = vi.fn<Metrics['refusedReview']>();
  let sources: ScrapeSources = {};
  const shedding = loadSheddingOf(
    { reviews: 1 },
    {
      metrics: { refusedReview, scrape: (added) => (sources = added) },
      log: { warn },
      now: () => now,
    },
  );
  expect(sources.reviewsInFlight?.()).toBe(0);
  shedding.enter('a');
  expect(sources.reviewsInFlight?.()).toBe(1);
  for (let time = 0; time < 20; time += 1) {
    shedding.enter('b');
    now += 1_000;
  }
  expect(refusedReview.mock.calls).toEqual(Array.from({ length: 20 }, () => ['reviews']));
  expect(warn.mock.calls.map(([fields]) => fields)).toEqual([
    { refused: { reviews: 1 } },
    { refused: { reviews: 10 } },
  ]);
});

test('large bodies may use an eighth of the heap, and at least two of the maximum size fit', () => {
  expect(maxBodyBytes(64 * MIB)).toBe(40 * MIB);
  expect(maxBodyBytes(1024 * MIB)).toBe(128 * MIB);
});
