/**
 * The ValidatingAdmissionPolicies of `gatehouse manifests --vap` refuse what the webhook refuses, in the same words. The sandbox
 * evaluates them; test/integration/admission-policies.test.ts holds its evaluation to recordings of kube-apiserver 1.36.
 */
import { isDeepStrictEqual } from 'node:util';
import { describe, expect, test } from 'vitest';

import { compileNative } from '../../src/admission/native/native-policy.ts';
import type { KubeObject } from '../../src/json/kube-object.ts';
import { GROUP, policyOf } from '../support/admission/policy.ts';
import { judgesOf, NOTHING } from '../support/native/judge.ts';
import { COMPARED } from '../support/native/policies.ts';
import { askedFrom } from '../support/native/requests.ts';
import { isNightly } from '../support/nightly.ts';
import { createSeeded, type Seeded } from '../support/seeded.ts';

const PAIRS = isNightly ? 100_000 : 6_000;
const RESTORER = { user: 'system:serviceaccount:velero:velero' };
const OPTIONS = { ownNamespace: 'gatehouse-system', restorers: [RESTORER, { group: 'restorers' }] };
const USERS = ['ada', 'mallory', 'root', '', RESTORER.user];

const paramsFrom = (chance: Seeded): KubeObject | undefined =>
  chance.chance(0.15)
    ? undefined
    : {
        apiVersion: `${GROUP}/v1`,
        kind: 'Class',
        metadata: { name: 'limits', namespace: 'store' },
        ...{ spec: { most: chance.pick([3, '3', null]), tiers: chance.pick([['gold'], [], 'gold']) } },
      };

describe('both judge alike', () => {
  test.each(COMPARED.map((spec, index) => [index, spec] as const))('policy %i', async (index, spec) => {
    const policy = policyOf(spec, `policy-${index}`);
    expect(compileNative(policy, OPTIONS).checks.filter(({ by }) => by === 'Webhook')).toEqual([]);
    const { webhook, apiServer, isLeft } = judgesOf(policy, OPTIONS);
    const chance = createSeeded(index);
    const judged = { alike: 0, told: 0, left: 0 };
    for (let pair = 0; pair < PAIRS / COMPARED.length; pair += 1) {
      const asked = askedFrom(chance, { operations: policy.match.operations, users: USERS });
      const params = paramsFrom(chance);
      const native = apiServer(asked, params);
      if (isLeft(asked)) {
        judged.left += 1;
        expect(native, JSON.stringify(asked.request, withBigints)).toEqual(NOTHING);
        continue;
      }
      const own = await webhook(asked, params);
      judged.alike += 1;
      if (!isDeepStrictEqual(own, NOTHING)) judged.told += 1;
      if (!isDeepStrictEqual(own, native))
        expect({ asked: asked.request, params, said: native }).toEqual({
          asked: asked.request,
          params,
          said: own,
        });
    }
    // Enough requests of each kind, so that the comparison can fail.
    expect(judged.alike).toBeGreaterThan((PAIRS / COMPARED.length) * 0.2);
    expect(judged.told).toBeGreaterThan(judged.alike * 0.05);
    expect(judged.left).toBeGreaterThan(0);
  });
});

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
    defaults: [{ path: 'spec.units', value: 1 }],
  });
  const { checks, pairs } = compileNative(policy, OPTIONS);
  expect(pairs).toEqual([]);
  expect(checks).toEqual([
    { check: 'rule room', by: 'Webhook', reason: 'it reads refs.datacenter' },
    {
      check: 'rule mixed',
      by: 'Webhook',
      reason: expect.stringContaining('refuses its expression') as string,
    },
    { check: 'rule who', by: 'Webhook', reason: 'the API server has no reason Unauthorized for a refusal' },
    { check: 'reference datacenter', by: 'Webhook', reason: 'it reads another object' },
    { check: 'unique serial', by: 'Webhook', reason: 'it compares with all other objects' },
    { check: 'defaults', by: 'Webhook', reason: 'a ValidatingAdmissionPolicy changes nothing' },
  ]);
});

test('a rule on the name stays in the webhook if it judges deletions', () => {
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
  expect(checksOf(['CREATE', 'DELETE'])).toMatchObject([
    {
      by: 'Webhook',
      reason: 'it reads request.name, which the API server leaves out when a collection is deleted',
    },
  ]);
});

test('checks that a restore may defer stay in the webhook, also for users who restore nothing now', () => {
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

test('a policy with 63 conditions fits, and none replaces a policy of Gatehouse', () => {
  const matchConditions = Array.from({ length: 63 }, (_, index) => ({
    name: `c${index}`,
    expression: 'true',
  }));
  const match = { apiGroups: [GROUP], resources: ['servers'], matchConditions };
  const policy = policyOf({ match, validate: { immutable: ['spec.tier'] } }, 'backstop-secrets');
  const object = compileNative(policy, OPTIONS).pairs[0]?.policy;
  expect(object).toMatchObject({ metadata: { name: 'backstop-secrets.policies.gatehouse.dev' } });
  expect((object as unknown as { spec: { matchConditions: unknown[] } }).spec.matchConditions).toHaveLength(
    64,
  );
});
