/**
 * Compiled policies refuse what the webhook refuses, in the same words. The sandbox evaluates them:
 * admission-policies.test.ts compares its evaluation with recordings of kube-apiserver 1.37.
 */
import { isDeepStrictEqual } from 'node:util';
import { describe, expect, test } from 'vitest';

import { isLeftToWebhook } from '../../src/admission/native/release.ts';
import { compileNative } from '../../src/admission/native/native-policy.ts';
import type { AdmissionPolicySpec } from '../../src/api/admission-policy.ts';
import type { CompiledPolicy } from '../../src/admission/policy/compiled-policy.ts';
import { isEqual } from '../../src/json/json.ts';
import { compileSpec, GROUP, policyOf } from '../support/admission/policy.ts';
import { changersOf, defaultingSpecFrom, type Outcome } from '../support/native/changes.ts';
import { mutatingSpecFrom } from '../support/native/mutations.ts';
import { judgesOf, NOTHING } from '../support/native/judge.ts';
import { specFrom } from '../support/native/generated.ts';
import { COMPARED } from '../support/native/policies.ts';
import { askedFrom, paramsFrom } from '../support/native/requests.ts';
import { isNightly } from '../support/nightly.ts';
import { createSeeded, type Seeded } from '../support/seeded.ts';

const PAIRS = isNightly ? 100_000 : 3_000;
const PER_GENERATED = 20;
const RESTORER = { user: 'system:serviceaccount:velero:velero' };
const OPTIONS = {
  ownNamespace: 'gatehouse-system',
  restorers: [RESTORER, { group: 'restorers' }],
  others: [],
};
const USERS = ['ada', 'mallory', 'root', '', RESTORER.user];

/** Compares the verdicts about generated requests. @returns how many of each kind there were */
async function compare(policy: CompiledPolicy, chance: Seeded, requests: number) {
  const { webhook, apiServer, isLeft } = judgesOf(policy, OPTIONS);
  const judged = { alike: 0, told: 0, left: 0 };
  for (let pair = 0; pair < requests; pair += 1) {
    const asked = askedFrom(chance, { ...policy.match, users: USERS });
    const params = paramsFrom(chance, policy);
    const native = await apiServer(asked, params);
    if (isLeft(asked)) {
      judged.left += 1;
      expect(native, JSON.stringify(asked.request, withBigints)).toEqual(NOTHING);
      continue;
    }
    const own = await webhook(asked, params);
    judged.alike += 1;
    if (!isDeepStrictEqual(own, NOTHING)) judged.told += 1;
    if (!isDeepStrictEqual(own, native))
      expect({ spec: policy.spec, asked: asked.request, params, said: native }).toEqual({
        spec: policy.spec,
        asked: asked.request,
        params,
        said: own,
      });
  }
  return judged;
}

describe('both judge alike', () => {
  test.each(COMPARED.map((spec, index) => [index, spec] as const))('policy %i', async (index, spec) => {
    const policy = policyOf(spec, `policy-${index}`);
    expect(compileNative(policy, OPTIONS).checks.filter(({ by }) => by === 'Webhook')).toEqual([]);
    const requests = PAIRS / 2 / COMPARED.length;
    const judged = await compare(policy, createSeeded(index), requests);
    // Enough requests of each kind, so that the comparison can fail.
    expect(judged.alike).toBeGreaterThan(requests * 0.2);
    expect(judged.told).toBeGreaterThan(judged.alike * 0.05);
    expect(judged.left).toBeGreaterThan(0);
  });

  test('generated policies', async () => {
    const chance = createSeeded(1);
    const kinds = new Map<string, number>();
    const all = { alike: 0, told: 0, left: 0 };
    let tried = 0;
    let compared = 0;
    while (all.alike + all.left < PAIRS / 2) {
      tried += 1;
      const result = compileSpec(specFrom(chance), 'generated');
      if (result.kind === 'rejected') continue;
      const { policy } = result;
      const { checks } = compileNative(policy, OPTIONS);
      if (checks.length === 0 || checks.some(({ by }) => by === 'Webhook')) continue;
      compared += 1;
      for (const { check } of checks) {
        const [kind = ''] = check.split(' ');
        kinds.set(kind, (kinds.get(kind) ?? 0) + 1);
      }
      const judged = await compare(policy, chance, PER_GENERATED);
      for (const key of ['alike', 'told', 'left'] as const) all[key] += judged[key];
    }
    expect(compared).toBeGreaterThan(tried * 0.7);
    expect([...kinds.keys()].toSorted()).toEqual(['audit', 'immutable', 'rule', 'schema', 'warnings']);
    expect(all.told).toBeGreaterThan(all.alike * 0.3);
    expect(all.alike - all.told).toBeGreaterThan(all.alike * 0.1);
    expect(all.left).toBeGreaterThan(all.alike * 0.1);
  });
});

async function compareChanges(specFor: (chance: Seeded) => Partial<AdmissionPolicySpec>, seed: number) {
  const chance = createSeeded(seed);
  const seen = { compared: 0, changed: 0, refused: 0, left: 0, policies: 0, inWebhook: 0 };
  const texts: string[] = [];
  while (seen.compared < PAIRS / 2) {
    const result = compileSpec(specFor(chance), 'generated');
    if (result.kind === 'rejected') continue;
    const { policy } = result;
    if (compileNative(policy, OPTIONS).checks.some(({ by }) => by === 'Webhook')) {
      seen.inWebhook += 1;
      continue;
    }
    const { webhook, apiServer } = changersOf(policy, OPTIONS);
    seen.policies += 1;
    texts.push(JSON.stringify(policy.spec));
    for (let pair = 0; pair < PER_GENERATED; pair += 1) {
      const asked = askedFrom(chance, { ...policy.match, operations: ['CREATE', 'UPDATE'], users: USERS });
      const params = paramsFrom(chance, policy);
      const native = await apiServer(asked, params);
      const { object } = asked.question;
      if (isLeftToWebhook(policy, OPTIONS.restorers, asked.request)) {
        seen.left += 1;
        expect(native).toEqual(object);
        continue;
      }
      const own = await webhook(asked, params);
      seen.compared += 1;
      if (own === 'refused') seen.refused += 1;
      else if (!isDeepStrictEqual(own, object)) seen.changed += 1;
      const told = (outcome: Outcome) => ({ spec: policy.spec, asked: asked.request, params, outcome });
      // A patch does not turn -0 into 0.
      if (!isEqual(native, own)) expect(told(native)).toEqual(told(own));
    }
  }
  return { ...seen, texts };
}

test('both fill the same defaults', async () => {
  const seen = await compareChanges(defaultingSpecFrom, 2);
  expect(seen.inWebhook).toBe(0);
  expect(seen.changed).toBeGreaterThan(seen.compared * 0.3);
  expect(seen.refused).toBeGreaterThan(seen.compared * 0.02);
  expect(seen.left).toBeGreaterThan(seen.compared * 0.05);
  expect(seen.policies).toBeGreaterThan(50);
});

test('both apply the same mutations', async () => {
  const seen = await compareChanges(mutatingSpecFrom, 3);
  expect(seen.policies).toBeGreaterThan(seen.inWebhook * 0.4);
  const parts = ['params.spec', '/spec/list/-', 'remove', 'replace', 'null', 'dyn(', '] + ['];
  for (const part of [...parts, '/status', '"defaults"'])
    expect([part, seen.texts.filter((text) => text.includes(part)).length > 2]).toEqual([part, true]);
  expect(seen.changed).toBeGreaterThan(seen.compared * 0.3);
  expect(seen.refused).toBeGreaterThan(seen.compared * 0.05);
  expect(seen.left).toBeGreaterThan(seen.compared * 0.05);
  expect(seen.policies).toBeGreaterThan(50);
});

const NEVER_REFUSES = 'a request whose matchConditions fail must be refused, and enforcement';

const withBigints = (_key: string, value: unknown): unknown =>
  typeof value === 'bigint' ? String(value) : value;

test('checks that need the webhook stay there, each with its reason', () => {
  const policy = policyOf({
    validate: {
      references: [
        { name: 'datacenter', path: 'spec.datacenter', target: { apiGroup: GROUP, resource: 'datacenters' } },
      ],
      unique: [{ name: 'serial', paths: ['spec.serial'] }],
      rules: [
        { name: 'room', expression: 'refs.datacenter.spec.open == true' },
        { name: 'mixed', expression: '[1, "a"].size() == 2' },
        { name: 'who', expression: 'true', reason: 'Unauthorized' },
      ],
    },
  });
  const { checks, pairs } = compileNative(policy, OPTIONS);
  expect(pairs).toEqual([]);
  const refused = expect.stringContaining('refuses its expression') as string;
  const reasons = [
    ['rule room', 'it reads refs.datacenter'],
    ['rule mixed', refused],
    ['rule who', 'the API server does not support the reason Unauthorized'],
    ['reference datacenter', 'it reads another object'],
    ['unique serial', 'it compares with all other objects'],
  ];
  expect(checks).toEqual(reasons.map(([check, reason]) => ({ check, by: 'Webhook', reason })));
});

test('with match conditions, only a policy that denies compiles: the API server would only warn if a condition fails', () => {
  const match = {
    apiGroups: [GROUP],
    resources: ['servers'],
    matchConditions: [{ name: 'large', expression: 'object.spec.units > 1' }],
  };
  const validate = { rules: [{ name: 'tier', expression: 'object.spec.tier == "gold"' }] };
  for (const enforcement of ['Warn', 'Audit'] as const)
    expect(compileNative(policyOf({ match, validate, enforcement }), OPTIONS).checks).toMatchObject([
      { by: 'Webhook', reason: `${NEVER_REFUSES} ${enforcement} refuses nothing` },
    ]);
  expect(compileNative(policyOf({ match, validate }), OPTIONS).checks).toMatchObject([{ by: 'APIServer' }]);
});

test('exceptions are in the audit log, also of a policy that only warns or reads params', () => {
  const exceptions = [{ name: 'root', reason: 'x', users: ['root'] }];
  const annotated = (spec: Parameters<typeof policyOf>[0]) =>
    compileNative(policyOf({ ...spec, exceptions }), OPTIONS).pairs.flatMap(({ part, policy }) =>
      JSON.stringify(policy).includes('"key":"exceptions"') ? [part] : [],
    );
  const params = { apiGroup: GROUP, resource: 'classes', name: 'limits', whenMissing: 'Allow' as const };
  const ofParams = [{ name: 'most', expression: 'object.spec.units <= params.spec.most' }];
  const own = [{ name: 'tier', expression: 'object.spec.tier == "gold"' }];
  const warnings = [{ message: 'always' }];
  expect(annotated({ validate: { rules: own }, warnings })).toEqual(['policies']);
  expect(annotated({ warnings })).toEqual(['notices']);
  expect(annotated({ params, validate: { rules: ofParams } })).toEqual(['policies']);
  expect(annotated({ validate: { unique: [{ name: 'tier', paths: ['spec.tier'] }] } })).toEqual([]);
});

test('the webhook keeps a rule on the name if the rule checks deletions', () => {
  const checksOf = (operations: ('CREATE' | 'DELETE')[]) =>
    compileNative(
      policyOf({
        match: { apiGroups: [GROUP], resources: ['servers'], operations },
        variables: [{ name: 'name', expression: 'request.name' }],
        validate: { rules: [{ name: 'named', expression: 'variables.name != "b"' }] },
      }),
      OPTIONS,
    ).checks;
  expect(checksOf(['CREATE'])).toMatchObject([{ by: 'APIServer' }]);
  const reason = 'it reads request.name, which the API server omits when a collection is deleted';
  expect(checksOf(['CREATE', 'DELETE'])).toMatchObject([{ by: 'Webhook', reason }]);
});

test('the webhook keeps a rule or notice whose variable can have another type for the API server', () => {
  const byOf = (expression: string) => {
    const variables = [
      { name: 'own', expression },
      { name: 'copy', expression: 'variables.own' },
    ];
    const use = 'variables.copy != "b"';
    const spec = {
      variables,
      validate: { rules: [{ name: 'used', expression: use }] },
      warnings: [{ condition: use, message: 'used' }],
    };
    return compileNative(policyOf(spec), OPTIONS).checks.map(({ by }) => by);
  };
  // On a field that is not an optional, orValue returns the field itself, of any type.
  expect(byOf('object.spec.tier.orValue("a")')).toEqual(['Webhook', 'Webhook']);
  expect(byOf('string(object.spec.tier.orValue("a"))')).toEqual(['APIServer', 'APIServer']);
  expect(byOf('object.?spec.?tier.orValue("a")')).toEqual(['APIServer', 'APIServer']);
});

test('the webhook keeps checks that a restore can defer, even for users who do not restore now', () => {
  const validate = {
    immutable: ['spec.tier'],
    rules: [
      { name: 'state', expression: 'object.spec.units < 5' },
      { name: 'request', expression: 'request.userInfo.username != "mallory"' },
    ],
  };
  const deferring = policyOf({ validate, restore: { rules: 'Defer', immutable: 'Skip' } });
  const reason = 'a restore may defer it';
  expect(compileNative(deferring, OPTIONS).checks).toEqual([
    { check: 'immutable spec.tier', by: 'Webhook', reason },
    { check: 'rule state', by: 'Webhook', reason },
    expect.objectContaining({ check: 'rule request', by: 'APIServer' }),
  ]);
  const warning = policyOf({ validate, restore: { rules: 'Defer' }, enforcement: 'Warn' });
  for (const policy of [policyOf({ validate }), warning])
    expect(compileNative(policy, OPTIONS).checks.map(({ by }) => by)).toEqual(Array(3).fill('APIServer'));
});
