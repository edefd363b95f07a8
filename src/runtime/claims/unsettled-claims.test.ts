import { beforeEach, describe, expect, test } from 'vitest';

import { createUnsettledClaims, type UnsettledClaims } from './unsettled-claims.ts';

const SETTLE_MS = 70_000;
const LIMITS = { perUser: 4, total: 10, perNamespace: 3 };

let now: number;
let refusals: number;
let unsettled: UnsettledClaims;

beforeEach(() => {
  now = 1_000_000;
  refusals = 0;
  const onRefused = () => (refusals += 1);
  unsettled = createUnsettledClaims(SETTLE_MS, () => now, onRefused, LIMITS);
});

const refOf = (name: string, namespace = 'shop') => ({ group: '', resource: 'servers', namespace, name });
const keyOf = (claim: string, { policy = 'serials', self = refOf('a') } = {}) => ({
  claim,
  policy: { name: policy },
  self,
});
/** Reserves and writes the claims. */
function write(claims: readonly string[], username = 'ada', where?: Parameters<typeof keyOf>[1]): boolean {
  const keys = claims.map((claim) => keyOf(claim, where));
  const { refused, written } = unsettled.reserve(keys, username);
  if (refused.length > 0) return false;
  written(claims);
  return true;
}
const numbered = (prefix: string, length: number) => Array.from({ length }, (_, n) => `${prefix}-${n}`);

describe('the limit', () => {
  test('counts by user, namespace and policy', () => {
    expect(write(numbered('x', 7))).toBe(true); // an object with more keys passes if nothing else counts
    expect(write(['y'])).toBe(false);
    expect(refusals).toBe(1);
    expect(write(['y'], 'grace')).toBe(true);
    expect(write(['z'], 'ada', { self: refOf('a', 'lab') })).toBe(true);
    expect(write(['u'], 'ada', { policy: 'others' })).toBe(true);
    expect(unsettled.count()).toBe(10);
  });

  test('counts the service accounts of a namespace as one user, and no others', () => {
    expect(write(numbered('x', 4), 'system:serviceaccount:team:one')).toBe(true);
    expect(write(['y'], 'system:serviceaccount:team:two')).toBe(false);
    expect(write(['y'], 'system:serviceaccount:teams:two')).toBe(true);
  });

  test('includes requests in progress', () => {
    const keys = numbered('x', 4).map((claim) => keyOf(claim));
    const { refused, written } = unsettled.reserve(keys, 'ada');
    expect(refused).toEqual([]);
    expect(write(['y'])).toBe(false);
    written([]);
    expect(write(['y'])).toBe(true);
    expect(unsettled.count()).toBe(1);
  });

  test('names only the keys of the policy whose limit is exceeded', () => {
    write(numbered('x', 4));
    const keys = [keyOf('y'), keyOf('z', { policy: 'others' })];
    expect(unsettled.reserve(keys, 'ada').refused).toEqual([keys[0]]);
    expect(unsettled.count()).toBe(4);
  });

  test('does not count a claim twice, and the first writer stays responsible', () => {
    write(numbered('x', 4));
    expect(write(numbered('x', 4), 'grace')).toBe(true);
    expect(unsettled.count()).toBe(4);
    expect(write(['y'])).toBe(false);
  });

  test('of the process only delays namespaces with many unsettled claims', () => {
    for (const policy of ['one', 'two', 'three']) write(numbered(policy, 3), 'ada', { policy });
    expect(write(numbered('x', 2), 'grace')).toBe(false);
    expect(write(numbered('x', 2), 'grace', { self: refOf('a', 'lab') })).toBe(true);
    expect(write(numbered('y', 2), 'hopper', { self: refOf('a', 'lab') })).toBe(false);
  });
});

describe('a claim', () => {
  test('that passes to another object settles with that object', () => {
    write(['x']);
    write(['x'], 'grace', { self: refOf('b') });
    unsettled.reserve([keyOf('x', { self: refOf('c') })], 'eve').written([]); // this one only asks
    unsettled.settle(refOf('a'), ['x']);
    unsettled.settle(refOf('b'), ['y']);
    expect(unsettled.count()).toBe(1);
    unsettled.settle(refOf('b'), ['x']);
    expect(unsettled.count()).toBe(0);
  });

  test('is due after the settle time, and again until it is cleaned up', () => {
    write(['x']);
    now += 1_000;
    write(['y']);
    now += SETTLE_MS - 1_001;
    expect(unsettled.takeDue()).toEqual([]);
    now += 1;
    expect(unsettled.takeDue()).toEqual(['x']);
    expect(unsettled.takeDue()).toEqual([]);
    now += SETTLE_MS;
    expect(unsettled.takeDue()).toEqual(['y', 'x']);
    const entry = unsettled.get('x');
    if (entry !== undefined) unsettled.cleaned('x', entry);
    expect(unsettled.get('x')).toBeUndefined();
    expect(unsettled.count()).toBe(1);
  });

  test('that another request writes during its cleanup still counts', () => {
    write(['x']);
    const entry = unsettled.get('x');
    write(['x']);
    if (entry !== undefined) unsettled.cleaned('x', entry);
    expect(unsettled.count()).toBe(1);
  });
});
