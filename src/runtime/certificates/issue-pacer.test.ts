import { describe, expect, test } from 'vitest';
import { createIssuePacer } from './issue-pacer.ts';

/** A pacer with a clock that jumps from timer to timer. */
function pacerAt({ perSecond = 20, burst = 50 } = {}) {
  let time = 0;
  const timers = new Set<{ readonly at: number; readonly run: () => void }>();
  const released: { readonly key: string; readonly at: number }[] = [];
  const pacer = createIssuePacer({
    perSecond,
    burst,
    monotonic: () => time,
    after: (ms, run) => {
      expect(ms).toBeGreaterThanOrEqual(0);
      const timer = { at: time + ms, run };
      timers.add(timer);
      return () => void timers.delete(timer);
    },
    release: (key) => released.push({ key, at: time }),
  });
  /** Lets time pass up to `until`, in milliseconds. */
  const runUntil = (until: number) => {
    const nextDue = () => [...timers].sort((a, b) => a.at - b.at).find(({ at }) => at <= until);
    for (let timer = nextDue(); timer !== undefined; timer = nextDue()) {
      timers.delete(timer);
      time = timer.at;
      timer.run();
    }
    if (until < Number.POSITIVE_INFINITY) time = until;
  };
  const drain = () => runUntil(Number.POSITIVE_INFINITY);
  return { pacer, released, drain, runUntil };
}

const due = (n: number) => new Date(n * 1_000);

test('C3: 10,000 certs are paced: 50 immediately, then 20 per second, earliest expiry first', () => {
  const { pacer, released, drain } = pacerAt();
  const keys = Array.from({ length: 10_000 }, (_, n) => ({ key: `s-${n}`, ends: (n * 7919) % 10_000 }));
  const atOnce = keys.filter(({ key, ends }) => pacer.take(key, due(ends)));
  expect(atOnce).toHaveLength(50);
  expect(pacer.waiting()).toBe(9_950);
  drain();
  expect(released).toHaveLength(9_950);
  const endsOf = new Map(keys.map(({ key, ends }) => [key, ends]));
  const order = released.map(({ key }) => endsOf.get(key) ?? -1);
  expect(order).toEqual([...order].sort((a, b) => a - b));
  const seconds = (released.at(-1)?.at ?? 0) / 1_000;
  expect(seconds).toBeGreaterThan(9_950 / 20 - 1);
  expect(seconds).toBeLessThan(9_950 / 20 + 30); // timers round up to whole milliseconds
  for (const { key } of released) expect(pacer.take(key, due(0))).toBe(true);
});

test('a released key is issued once and waits again the next time', () => {
  const { pacer, drain, released } = pacerAt({ burst: 1 });
  expect(pacer.take('a', due(1))).toBe(true);
  expect(pacer.take('b', due(1))).toBe(false);
  expect(pacer.take('b', due(1))).toBe(false);
  drain();
  expect(released.map(({ key }) => key)).toEqual(['b']);
  expect(pacer.take('b', due(1))).toBe(true);
  expect(pacer.take('b', due(1))).toBe(false);
});

test('L2: an edited Secret goes before all waiting certs, and several take every third turn', () => {
  const { pacer, drain, released } = pacerAt({ burst: 1 });
  pacer.take('first', due(0));
  for (const key of ['a', 'b', 'c']) pacer.take(key, due(5));
  pacer.hurry('c');
  pacer.hurry('d');
  pacer.take('d', due(9));
  drain();
  expect(released.map(({ key }) => key)).toEqual(['c', 'a', 'b', 'd']);
});

describe('T12: one namespace cannot make the certs of others wait', () => {
  /** When the last of 450 renewals in other namespaces is released, in seconds. `act` runs 30 times a second. */
  function lastRenewal(act: (pacer: ReturnType<typeof pacerAt>['pacer'], n: number) => void): number {
    const { pacer, released, runUntil } = pacerAt();
    for (let n = 0; n < 50; n++) pacer.take(`full/s-${n}`, due(0));
    for (let n = 0; n < 450; n++) pacer.take(`ns-${n % 45}/s-${n}`, due(1_000 + n));
    const renewals = () => released.filter(({ key }) => key.startsWith('ns-'));
    for (let n = 0; renewals().length < 450 && n < 30 * 200; n++) {
      act(pacer, n);
      runUntil(((n + 1) * 1_000) / 30);
    }
    return (renewals()[449]?.at ?? Number.POSITIVE_INFINITY) / 1_000;
  }

  test.each([
    ['a tenant edits 30 of its Secrets a second', 2_000, 40],
    ['all certs of a tenant end sooner, and it edits them too', 1, 75],
  ])('if %s', (_what, ends, limit) => {
    const seconds = lastRenewal((pacer, n) => {
      pacer.hurry(`tenant/s-${n}`);
      pacer.take(`tenant/s-${n}`, due(ends));
    });
    expect(seconds).toBeLessThan(limit);
  });

  test('if it also uses many Services', () => {
    const { pacer, released, drain } = pacerAt({ burst: 1 });
    pacer.take('full/s', due(0));
    for (let n = 0; n < 1_000; n++) pacer.take(`tenant/s-${n}`, due(1));
    for (const namespace of ['a', 'b', 'c']) pacer.take(`${namespace}/s`, due(1_000));
    drain();
    const others = released.flatMap(({ key }, position) => (key.startsWith('tenant') ? [] : [position]));
    expect(others).toHaveLength(3);
    expect(Math.max(...others)).toBeLessThan(12);
  });
});
