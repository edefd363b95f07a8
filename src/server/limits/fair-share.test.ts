import fc from 'fast-check';
import { expect, test } from 'vitest';

import { createFairShare } from './turns.ts';

/** How many units each client takes until it is refused. */
function fill(limit: number, ...order: readonly string[]) {
  const share = createFairShare(limit);
  const taken = order.map((who) => {
    let amount = 0;
    while (share.take(who, 1) === undefined) amount += 1;
    return amount;
  });
  return { share, taken };
}

test('a single client gets half, and each further client gets half of the rest', () => {
  expect(fill(100, 'a').taken).toEqual([50]);
  expect(fill(100, 'a', 'b', 'c').taken).toEqual([50, 25, 13]);
});

test('a refusal distinguishes an exhausted limit from an exhausted share', () => {
  const share = createFairShare(4);
  expect([share.take('slow', 1), share.take('slow', 1), share.take('slow', 1)]).toEqual([
    undefined,
    undefined,
    'over-share',
  ]);
  expect([share.take('other', 1), share.take('third', 1), share.take('fourth', 1)]).toEqual([
    undefined,
    undefined,
    'full',
  ]);
});

test('the limit is never exceeded, and a new client gets a unit while one is free', () => {
  const step = fc.record({
    who: fc.constantFrom('a', 'b', '__proto__'),
    amount: fc.integer({ min: 1, max: 5 }),
    gives: fc.boolean(),
  });
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 20 }), fc.array(step, { maxLength: 60 }), (limit, steps) => {
      const share = createFairShare(limit);
      const held: { who: string; amount: number }[] = [];
      for (const { who, amount, gives } of steps) {
        const last = gives ? held.pop() : undefined;
        if (last !== undefined) share.giveBack(last.who, last.amount);
        else if (share.take(who, amount) === undefined) held.push({ who, amount });
        const sum = held.reduce((total, one) => total + one.amount, 0);
        expect(share.taken()).toBe(sum);
        expect(sum).toBeLessThanOrEqual(limit);
        expect(share.check('new', 1)).toBe(sum < limit ? undefined : 'full');
      }
    }),
  );
});
