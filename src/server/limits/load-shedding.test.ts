import { describe, expect, test, vi } from 'vitest';

import type { Log } from '../../log.ts';
import type { Metrics, Overload } from '../metrics/metrics.ts';
import type { ScrapeSources } from '../metrics/scraped.ts';
import { maxBodyBytes, createBodyBudget, type LoadShedding, type Requester } from './load-shedding.ts';
import { loadSheddingOf } from '../../../test/support/server/load-shedding.ts';

const never = () => undefined;
const MIB = 1024 * 1024;
/** A review of this entry, by a separate user. */
const by = (entry: string): Requester => ({
  entry,
  request: { userInfo: { username: `user of ${entry}`, uid: '', groups: [], extra: {} }, namespace: entry },
});
/** Checks a review and, if it may be decided, puts it in flight. Returns why not. */
function enter(shedding: LoadShedding, who: Requester, bytes: number): Overload | undefined {
  const refusal = shedding.check(who, bytes);
  if (refusal === undefined) shedding.enter(who, bytes);
  return refusal;
}
/** In milliseconds, to answer. */
const MINUTE = 60_000;
const REFUSED = (why: string) => ({ kind: 'refused', why });
const ADMITTED = { kind: 'admitted', body: undefined };

describe('a review is refused', () => {
  test('while the event loop is late, unless concurrency explains it', () => {
    let isFull = false;
    const shedding = loadSheddingOf({ reviews: 1 }, { isLoopFull: () => isFull });
    expect(shedding.arrive('a', 1, MINUTE, never)).toEqual(ADMITTED);
    isFull = true;
    expect(shedding.arrive('a', 1, MINUTE, never)).toEqual(REFUSED('event-loop'));
    enter(shedding, by('a'), 1);
    expect(shedding.arrive('a', 1, MINUTE, never)).toEqual(REFUSED('reviews'));
  });
});

describe('one user, or one namespace', () => {
  const review = (username: string, namespace?: string): Requester => ({
    entry: 'a',
    request: { userInfo: { username, uid: '', groups: [], extra: {} }, namespace },
  });
  const enterAll = (
    shedding: ReturnType<typeof loadSheddingOf>,
    count: number,
    make: (index: number) => Requester,
    bytes = 1,
  ) => Array.from({ length: count }, (_, index) => enter(shedding, make(index), bytes));

  test.each([
    ['a user in one namespace', () => review('mallory', 'hers')],
    ['a user in many namespaces', (index: number) => review('mallory', `hers-${index}`)],
    ['a user of cluster-scoped objects', () => review('mallory')],
    ['many users in one namespace', (index: number) => review(`bot-${index}`, 'hers')],
    [
      'a controller that acts for one namespace',
      () => review('system:serviceaccount:kube-system:job-controller', 'hers'),
    ],
  ])('%s gets a third, and others of the same webhook are admitted', (_who, make) => {
    const shedding = loadSheddingOf({ reviews: 30 });
    const entered = enterAll(shedding, 15, make);
    expect(entered.map((refusal) => refusal ?? 'in flight')).toEqual([
      ...Array.from({ length: 10 }, () => 'in flight'),
      ...Array.from({ length: 5 }, () => 'requester'),
    ]);
    expect(shedding.arrive('a', 1, MINUTE, never)).toEqual(ADMITTED);
    expect(enter(shedding, review('ada', 'shop'), 1)).toBeUndefined();
    for (let index = 0; index < 10; index += 1) shedding.leave(make(index), 1);
    expect(enter(shedding, make(0), 1)).toBeUndefined();
  });

  test('a controller that acts for many namespaces is limited in each one only', () => {
    const shedding = loadSheddingOf({ reviews: 30 });
    const controller = (namespace: string) =>
      review('system:serviceaccount:kube-system:job-controller', namespace);
    enterAll(shedding, 15, () => controller('hers'));
    expect(enter(shedding, controller('hers'), 1)).toBe('requester');
    expect(enter(shedding, controller('shop'), 1)).toBeUndefined();
  });

  test('also gets a third of the memory for large bodies', () => {
    const shedding = loadSheddingOf({ bodyBytes: 30 * MIB });
    const enterLarge = (who: Requester) => {
      const arrival = shedding.arrive('a', MIB, MINUTE, never);
      if (arrival.kind === 'refused') return arrival.why;
      const refusal = enter(shedding, who, MIB);
      if (refusal !== undefined) arrival.body?.release();
      return refusal;
    };
    const entered = Array.from({ length: 15 }, () => enterLarge(review('mallory', 'hers')));
    expect(entered.filter((refusal) => refusal === undefined)).toHaveLength(10);
    expect(entered.at(-1)).toBe('requester');
    expect(enterLarge(review('ada', 'shop'))).toBeUndefined();
  });
});

test('a body that is still arriving does not count as a concurrent review', () => {
  const shedding = loadSheddingOf({ reviews: 1 });
  expect([1, 2, 3].map(() => shedding.arrive('a', 1, MINUTE, never))).toEqual([ADMITTED, ADMITTED, ADMITTED]);
  expect(enter(shedding, by('b'), 1)).toBeUndefined();
});

test('refusals are counted, and logged at intervals', () => {
  let now = 1_000_000;
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
  enter(shedding, by('a'), 1);
  expect(sources.reviewsInFlight?.()).toBe(1);
  for (let time = 0; time < 20; time += 1) {
    enter(shedding, by('b'), 1);
    now += 1_000;
  }
  expect(refusedReview.mock.calls).toEqual(Array.from({ length: 20 }, () => ['reviews']));
  expect(warn.mock.calls.map(([fields]) => fields)).toEqual([
    { refused: { reviews: 1 } },
    { refused: { reviews: 10 } },
  ]);
});

test('large bodies may use an eighth of the heap, and at least two of the maximum size fit', () => {
  expect([64 * MIB, 1024 * MIB].map(maxBodyBytes)).toEqual([40 * MIB, 128 * MIB]);
});

const noEviction = () => {
  throw new Error('unexpected eviction');
};

function roomFor(bytes: number) {
  let now = 1_000_000;
  const { reserve } = createBodyBudget(bytes, () => now);
  return { reserve, pass: (ms: number) => (now += ms) };
}

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
  expect(reserve('c', 5, noEviction)).toBeUndefined(); // both bodies may still be arriving
  pass(500);
  expect(reserve('c', 5, noEviction)).toBeDefined();
  expect(cutOff.mock.calls).toEqual([['older']]);
  expect(reserve('d', 5, noEviction)).toBeUndefined();
});

test('a complete body is not evicted, however long its answer takes', () => {
  const { reserve, pass } = roomFor(10);
  const held = reserve('a', 10, noEviction);
  held?.received();
  pass(60_000);
  expect(reserve('b', 5, noEviction)).toBeUndefined();
});

test('an evicted connection that then closes releases nothing twice', () => {
  const { reserve, pass } = roomFor(10);
  const cut = reserve('a', 10, () => undefined);
  pass(1_000);
  expect(reserve('b', 10, noEviction)).toBeDefined();
  cut?.release();
  expect(reserve('c', 10, noEviction)).toBeUndefined();
});

test('a large body is refused if the work before it leaves no time for it', () => {
  let busy = 5_000;
  const { reserve, workMs } = createBodyBudget(
    100 * MIB,
    () => 1_000_000,
    () => busy,
  );
  const hold = () => reserve('a', MIB, noEviction);
  expect(workMs(20 * MIB)).toBe(0); // a single one is always tried
  const held = hold();
  expect(workMs(MIB)).toBe(400); // the guess: 200 ms each
  hold();
  busy += 900;
  held?.release();
  expect(workMs(MIB)).toBeCloseTo((2 * (0.9 * 200 + 900)) / 1.9);
});

test('reviews that wait for lookups do not count the work that the replica does meanwhile for others', () => {
  let time = 0;
  const { reserve, workMs } = createBodyBudget(
    100 * MIB,
    () => time,
    () => time / 2,
  );
  const hold = () => reserve('a', 20_000, noEviction);
  for (let count = 0; count < 20; count += 1) {
    const held = hold();
    time += 2_000;
    held?.release();
  }
  hold();
  expect(workMs(MIB)).toBeLessThan(250);
});
