import { describe, expect, test } from 'vitest';

import type { KubeObject } from '../../../json/kube-object.ts';
import { MAX_REQUESTS, type AdmittedRequest, type UniqueClaim } from '../../../api/unique-claim.ts';
import { admittedRequest, busyMs, holderRef, isHeldBy, newClaim, passedOn, renewed } from './claim-state.ts';
import { SETTLE_MS } from '../../../../test/support/admission/claims.ts';
import { createRequest, GROUP, policyOf, updateRequest } from '../../../../test/support/admission/policy.ts';
import { heldKeys } from './unique-key.ts';

const self = { group: GROUP, resource: 'servers', namespace: 'store', name: 'a' };
const policy = policyOf({ validate: { unique: [{ name: 'serial', paths: ['spec.serial'] }] } });
const now = Date.parse('2026-11-21T12:00:00Z');
const at = (ago: number) => new Date(now - ago).toISOString();

function claimWith(...requests: readonly AdmittedRequest[]): UniqueClaim {
  const [key] = heldKeys(policy, { spec: { serial: 'X' } }, self);
  if (key === undefined) throw new Error('expected a unique key');
  const claim = newClaim('servers', key, self, undefined, now);
  return { ...claim, spec: { ...claim.spec, requests } };
}
const live = (uid: string, resourceVersion: string): KubeObject => ({
  metadata: { name: 'a', uid, resourceVersion },
});

describe('the time until a claim without a matching holder is free', () => {
  const creation = { uid: 'u1', at: at(1_000) };
  const update = { uid: 'u1', resourceVersion: '5', at: at(1_000) };
  const REST = SETTLE_MS - 1_000;

  test.each<[string, readonly AdmittedRequest[], KubeObject | undefined, number]>([
    ['zero without pending requests', [], undefined, 0],
    ['zero if the created object has changed since', [creation], live('u1', '9'), 0],
    ['positive if the created object is not stored yet', [creation], undefined, REST],
    ['positive if another object has its name', [creation], live('u2', '9'), REST],
    ['zero if the updated object has changed again', [update], live('u1', '6'), 0],
    ['zero if the updated object is gone', [update], undefined, 0],
    ['zero if the updated object was replaced', [update], live('u2', '5'), 0],
    ['positive if the update is not stored yet', [update], live('u1', '5'), REST],
    ['positive if the pending requests are unknown', [{ at: at(1_000) }], live('u1', '5'), REST],
    ['zero after the settle time', [{ uid: 'u1', at: at(SETTLE_MS) }], undefined, 0],
    [
      'positive until the last of several requests has settled',
      [update, { uid: 'u3', at: at(500) }],
      live('u1', '6'),
      SETTLE_MS - 500,
    ],
    ['zero with a time that no clock has reached', [{ at: at(-3_600_000) }], undefined, 0],
    ['zero with an invalid time', [{ uid: 'u1', at: 'soon' }], undefined, 0],
    [
      'positive if the clock of a replica is ahead',
      [{ uid: 'u1', at: at(-2_000) }],
      undefined,
      SETTLE_MS + 2_000,
    ],
  ])('%s', (_when, requests, holder, waitMs) => {
    expect(busyMs(claimWith(...requests), holder, now, SETTLE_MS)).toBe(waitMs);
  });

  test('zero if the created object was stored at some time', () => {
    const wasStored = (uid: string) => uid === 'u1';
    expect(busyMs(claimWith(creation), undefined, now, SETTLE_MS, wasStored)).toBe(0);
    expect(busyMs(claimWith({ ...creation, uid: 'u2' }), undefined, now, SETTLE_MS, wasStored)).toBe(REST);
  });
});

describe('pending requests of a claim', () => {
  test('identify a creation by uid, an update by resourceVersion', () => {
    expect(admittedRequest(createRequest({}, { uid: 'u1' }), now)).toEqual({ uid: 'u1', at: at(0) });
    const request = updateRequest({}, {});
    const oldObject = { ...request.oldObject, metadata: { name: 'a', uid: 'u1', resourceVersion: '5' } };
    expect(admittedRequest({ ...request, oldObject }, now)).toEqual({
      uid: 'u1',
      resourceVersion: '5',
      at: at(0),
    });
    expect(admittedRequest(request, now)).toEqual({ at: at(0) });
  });

  test('include earlier ones that have not settled, and no duplicates', () => {
    const requests = (claim: UniqueClaim) => claim.spec.requests;
    const claim = claimWith({ uid: 'old', at: at(SETTLE_MS) }, { uid: 'u1', at: at(9_000) });
    const again = renewed(claim, { uid: 'u2', at: at(0) }, now, SETTLE_MS);
    expect(requests(again)).toEqual([
      { uid: 'u1', at: at(9_000) },
      { uid: 'u2', at: at(0) },
    ]);
    expect(again.spec.claimedAt).toBe(at(0));
    expect(requests(renewed(again, { uid: 'u1', at: at(0) }, now, SETTLE_MS))).toHaveLength(2);
  });

  test('above the limit are merged into one', () => {
    let claim = claimWith();
    for (let n = 0; n <= MAX_REQUESTS; n++) {
      claim = renewed(claim, { uid: `u${n}`, at: at(0) }, now, SETTLE_MS);
    }
    expect(claim.spec.requests).toEqual([{ at: at(0) }]);
    expect(busyMs(claim, live('u1', '5'), now, SETTLE_MS)).toBe(SETTLE_MS);
  });
});

test('a claim holds only a prefix of a long value, and nothing of a Secret', () => {
  const [long] = heldKeys(policy, { spec: { serial: 'x'.repeat(10_000) } }, self);
  if (long === undefined) throw new Error('expected a unique key');
  expect(newClaim('servers', long, self, undefined, now).spec.values[0]).toHaveLength(64);
  const secret = { group: '', resource: 'secrets', namespace: 'store', name: 'a' };
  expect(newClaim('servers', long, secret, undefined, now).spec.values).toEqual([]);
});

test('a claim is held by name: a recreated object has another uid', () => {
  const claim = claimWith();
  expect(holderRef(claim)).toEqual(self);
  expect(isHeldBy(claim, { ...self })).toBe(true);
  for (const other of [
    { name: 'b' },
    { namespace: 'lab' },
    { namespace: undefined },
    { group: '' },
    { resource: 'racks' },
  ]) {
    expect(isHeldBy(claim, { ...self, ...other })).toBe(false);
  }
  const other = { ...self, name: 'b' };
  const passed = passedOn(claimWith({ uid: 'u1', at: at(0) }), other, undefined, now);
  expect(isHeldBy(passed, other)).toBe(true);
  expect(passed.spec).not.toHaveProperty('requests');
});
