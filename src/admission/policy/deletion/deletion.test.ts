/** Objects that are being deleted, and objects that only pretend to be. */
import { describe, expect, test } from 'vitest';

import type { AdmissionPolicySpec } from '../../../api/admission-policy.ts';
import { applyPatch } from '../../../json/json-patch.ts';
import type { JsonObject } from '../../../json/json.ts';
import { createClaimsInMemory } from '../../../../test/support/admission/claims.ts';
import {
  clusterOf,
  DATACENTER,
  createRequest,
  GROUP,
  policyOf,
  updateRequest,
} from '../../../../test/support/admission/policy.ts';
import type { AdmissionRequest } from '../../review/request.ts';
import { auditObject, forAudit } from '../audit.ts';
import { mutate } from '../mutate.ts';
import { validate } from '../validate.ts';

const FORGED = { deletionTimestamp: '2026-01-01T00:00:00Z', deletionGracePeriodSeconds: 0 };
const HOLD = { finalizers: ['example.com/hold', 'example.com/other'] };

const rule = (expression: string, rest: object = {}) => ({ validate: { rules: [{ expression, ...rest }] } });
const schemaOf = (spec: object) => ({ validate: { schema: { properties: { spec } } } });
const SMALL = { properties: { units: { maximum: 5 }, label: { maxLength: 3 } } };

/** An update of an object that is being deleted. */
function pending(before: JsonObject, after: JsonObject, metadata: JsonObject = HOLD): AdmissionRequest {
  return {
    ...updateRequest(before, after, { ...metadata, ...FORGED }),
    oldObject: createRequest(before, { ...HOLD, ...FORGED }).object,
  };
}

const kindOf = async (
  spec: Partial<AdmissionPolicySpec>,
  request: AdmissionRequest,
  cluster = clusterOf(),
): Promise<string> => (await validate(request, [policyOf(spec)], cluster)).kind;

/** Of a request that is allowed, under a policy with a unique value. */
async function valuesClaimedBy(request: AdmissionRequest) {
  const claims = createClaimsInMemory();
  const { world, ...rest } = clusterOf();
  const unique = { validate: { unique: [{ name: 'serial', paths: ['spec.serial'] }] } };
  expect(await kindOf(unique, request, { ...rest, reads: [], world: { ...world, claims } })).toBe('allow');
  return [...claims.stored.values()].map(({ spec }) => spec.values);
}

async function mutated(spec: Partial<AdmissionPolicySpec>, request: AdmissionRequest) {
  const decision = await mutate(request, [policyOf(spec)], clusterOf());
  if (decision.kind !== 'allow') throw new Error(decision.kind);
  return applyPatch(request.object ?? {}, decision.patch);
}

describe.each([
  ['a new object', (spec: JsonObject) => createRequest(spec, FORGED)],
  ['an update of an object that is not being deleted', (spec: JsonObject) => updateRequest({}, spec, FORGED)],
])('a forged deletionTimestamp in %s', (_what, forged) => {
  test.each<[string, Partial<AdmissionPolicySpec>, JsonObject]>([
    ['a schema', schemaOf(SMALL), { units: 9 }],
    ['a rule', rule('object.spec.units < 5'), { units: 9 }],
    ['a reference', { validate: { references: [DATACENTER] } }, { datacenter: 'gone' }],
    [
      'a unique list of limited length',
      { validate: { unique: [{ name: 'port', paths: ['spec.ports[*]'] }] } },
      { ports: Array.from({ length: 300 }, (_, index) => index) },
    ],
  ])('does not skip %s', async (_check, spec, content) => {
    expect(await kindOf(spec, forged(content))).toBe('deny');
  });

  test('does not skip unique values, defaults and mutations', async () => {
    expect(await valuesClaimedBy(forged({ serial: 'X' }))).toEqual([['"X"']]);
    const defaults = [{ path: 'spec.tier', value: 'gold' }];
    const mutations = [{ name: 'm', expression: '{"spec": {"a": 1}}' }];
    expect(await mutated({ defaults, mutations }, forged({}))).toMatchObject({
      spec: { tier: 'gold', a: 1 },
    });
  });
});

test('the audit checks an object that has a deletionTimestamp: it may be forged', async () => {
  const object = createRequest({ units: 9 }, FORGED).object ?? {};
  const policy = forAudit(policyOf(schemaOf(SMALL)));
  const kind = { group: GROUP, resource: 'servers' };
  expect(await auditObject(policy, kind, object, clusterOf())).toMatchObject({
    kind: 'judged',
    violations: [{ field: 'spec.units' }],
  });
});

describe('an object that is being deleted', () => {
  test.each<[string, Partial<AdmissionPolicySpec>, JsonObject, JsonObject]>([
    ['a schema', schemaOf(SMALL), { units: 1 }, { units: 9 }],
    ['a rule', rule('object.spec.units < 5'), { units: 1 }, { units: 9 }],
    ['a reference', { validate: { references: [DATACENTER] } }, {}, { datacenter: 'gone' }],
    ['a schema, in the same field with another value', schemaOf(SMALL), { units: 8 }, { units: 9 }],
    ['a schema, in another field', schemaOf(SMALL), { units: 8 }, { units: 8, label: 'long' }],
    [
      'a rule, in its field with another value',
      rule('object.spec.units < 5', { fieldPath: 'spec.units' }),
      { units: 8 },
      { units: 9 },
    ],
    [
      'a rule, with another message',
      rule('object.spec.units < 5', { messageExpression: 'string(object.spec.units)' }),
      { units: 8 },
      { units: 9 },
    ],
  ])('cannot newly violate %s', async (_check, spec, before, after) => {
    expect(await kindOf(spec, pending(before, after))).toBe('deny');
  });

  test.each<[string, Partial<AdmissionPolicySpec>, JsonObject]>([
    ['a schema', schemaOf(SMALL), { units: 9, label: 'long' }],
    ['a rule', rule('object.spec.units < 5'), { units: 9 }],
    ['a rule that fails', rule('object.spec.nothing < 5'), {}],
    [
      'a rule whose params are gone',
      { params: { apiGroup: '', resource: 'configmaps', name: 'a' }, ...rule('params.x') },
      {},
    ],
    ['a reference', { validate: { references: [DATACENTER] } }, { datacenter: 'gone' }],
  ])('can be changed elsewhere although it violates %s already', async (_check, spec, content) => {
    expect(await kindOf(spec, pending(content, { ...content, more: true }))).toBe('allow');
  });

  test('can lose its finalizers regardless of violations about its state, without a read of the cluster', async () => {
    const many = Object.fromEntries(Array.from({ length: 40 }, (_, index) => [`n${index}`, true]));
    const closed = schemaOf({ additionalProperties: false });
    for (const metadata of [{ finalizers: ['example.com/other'] }, { finalizers: [] }, {}])
      expect(await kindOf(closed, pending(many, many, metadata))).toBe('allow');
    const compares = rule('object.spec.units < oldObject.spec.units');
    expect(await kindOf(compares, pending({ units: 9 }, { units: 9 }, {}))).toBe('deny');
    const unreadable = clusterOf({ live: { 'configmaps/store/a': 'connection refused' } });
    const reading = { params: { apiGroup: '', resource: 'configmaps', name: 'a' }, ...rule('params.x') };
    expect(await kindOf(reading, pending({}, {}, {}), unreadable)).toBe('allow');
    expect(unreadable.reads).toEqual([]);
  });

  test('cannot get further flaws if it has more than are listed', async () => {
    const many = Object.fromEntries(Array.from({ length: 40 }, (_, index) => [`n${index}`, true]));
    const closed = schemaOf({ additionalProperties: false });
    expect(await kindOf(closed, pending(many, { ...many, zzz: true }))).toBe('deny');
  });

  test('claims its new unique values', async () => {
    expect(await valuesClaimedBy(pending({ serial: 'X' }, { serial: 'Y' }))).toEqual([['"Y"']]);
  });

  test('needs an answer about the old object before a violation is tolerated', async () => {
    const spec = { validate: { references: [DATACENTER], rules: [{ expression: 'refs.datacenter.open' }] } };
    const closed = { [`datacenters.${GROUP}/b`]: { open: false } as object };
    const cluster = clusterOf({
      stored: closed,
      live: { ...closed, [`datacenters.${GROUP}/a`]: 'connection refused' },
    });
    expect(await kindOf(spec, pending({ datacenter: 'a' }, { datacenter: 'b' }), cluster)).toBe('retry');
  });

  test('is mutated when more than its finalizers change', async () => {
    const defaults = [{ path: 'spec.tier', value: 'gold' }];
    expect(await mutated({ defaults }, pending({}, { a: 1 }))).toMatchObject({
      spec: { a: 1, tier: 'gold' },
    });
    expect(await mutated({ defaults }, pending({}, {}, {}))).not.toHaveProperty('spec.tier');
  });

  test('does not get a finalizer back from a mutation', async () => {
    const expression =
      '{"metadata": {"finalizers": ["example.com/hold", "example.com/other"]}, "spec": {"seen": true}}';
    const metadata = { finalizers: ['example.com/other'], labels: { a: 'b' } };
    const request = pending({}, {}, metadata);
    expect(await mutated({ mutations: [{ name: 'm', expression }] }, request)).toMatchObject({
      metadata,
      spec: { seen: true },
    });
  });
});
