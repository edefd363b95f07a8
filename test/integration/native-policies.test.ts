/**
 * The ValidatingAdmissionPolicies of `gatehouse manifests --vap` refuse what the webhook refuses, in the same words. The sandbox
 * evaluates them; test/integration/admission-policies.test.ts holds its evaluation to recordings of kube-apiserver 1.36.
 */
import { describe, expect, test } from 'vitest';

import { compileNative } from '../../src/admission/native/native-policy.ts';
import type { CompiledPolicy } from '../../src/admission/policy/compiled-policy.ts';
import { validate } from '../../src/admission/policy/validate.ts';
import type { AdmissionRequest } from '../../src/admission/review/request.ts';
import type { AdmissionPolicySpec } from '../../src/api/admission-policy.ts';
import { valueIn, type JsonObject } from '../../src/json/json.ts';
import { ofJson } from '../../src/sandbox/machinery/api-object.ts';
import { compilePolicy } from '../../src/sandbox/machinery/policies/compile-policy.ts';
import { evaluatePolicy } from '../../src/sandbox/machinery/policies/evaluate-policy.ts';
import type { ResourceType } from '../../src/sandbox/machinery/resource-type.ts';
import type { Question } from '../../src/sandbox/machinery/webhooks/admission-review.ts';
import { clusterOf, createRequest, GROUP, policyOf } from '../support/admission/policy.ts';
import { createSeeded, type Seeded } from '../support/seeded.ts';

const PAIRS = 100_000;
const RESTORER = { user: 'system:serviceaccount:velero:velero' };
const OPTIONS = { ownNamespace: 'gatehouse-system', restorers: [RESTORER, { group: 'restorers' }] };

type Rules = NonNullable<NonNullable<AdmissionPolicySpec['validate']>['rules']>;
const rules = (...all: Rules): Partial<AdmissionPolicySpec> => ({ validate: { rules: all } });

const POLICIES: readonly Partial<AdmissionPolicySpec>[] = [
  rules({
    name: 'tier',
    expression: 'object.spec.tier in ["gold", "silver"]',
    message: 'no such tier',
    fieldPath: 'spec.tier',
  }),
  rules(
    { expression: 'object.spec.?units.orValue(1) <= 4' },
    { name: 'odd', expression: 'object.spec.?units.orValue(1) % 2 == 0', reason: 'Invalid' },
  ),
  rules({
    name: 'words',
    expression: '!has(object.spec.note) || object.spec.note.size() < 5',
    messageExpression: '"the note has " + string(object.spec.note.size()) + " characters"',
    message: 'the note is long',
  }),
  rules({
    name: 'blank',
    expression: 'object.spec.tier != "silver"',
    messageExpression: 'object.spec.?note.orValue("")',
  }),
  rules({
    name: 'grows',
    expression: 'request.operation != "UPDATE" || object.spec.units >= oldObject.spec.units',
  }),
  rules({
    name: 'by',
    expression: 'request.userInfo.username != "mallory" && !("guests" in request.userInfo.groups)',
  }),
  rules({ name: 'enabled', expression: 'object.spec.enabled' }),
  rules({ name: 'missing', expression: 'object.spec.absent.deeper == 1' }),
  {
    variables: [
      { name: 'units', expression: 'object.spec.?units.orValue(1)' },
      { name: 'many', expression: 'variables.units > 3' },
    ],
    ...rules({
      name: 'many',
      expression: '!variables.many',
      messageExpression: '"has " + string(variables.units)',
    }),
  },
  { validate: { immutable: ['spec.tier', 'metadata.labels["example.com/rack"]'] } },
  { validate: { immutableFromCreation: ['spec.note', 'spec.list[0]', 'spec.in', 'spec.namespace'] } },
  {
    enforcement: 'Warn',
    ...rules({ name: 'warned', expression: 'object.spec.tier == "gold"', message: 'is not gold' }),
  },
];

function objectFrom(chance: Seeded): JsonObject {
  const maybe = (fields: JsonObject): JsonObject => (chance.chance(0.7) ? fields : {});
  return {
    ...maybe({ tier: chance.pick(['gold', 'silver', 'iron', null]) }),
    ...maybe({ units: chance.below(7) }),
    ...maybe({ note: chance.pick(['', ' ', 'short', 'rather long']) }),
    ...maybe({ in: chance.below(2), namespace: chance.below(2) }),
    ...maybe({ enabled: chance.pick([true, false]) }),
    ...maybe({ list: chance.pick([[], ['a'], ['b', 'a']]) }),
  };
}

function metadataFrom(chance: Seeded): JsonObject {
  return chance.chance(0.5) ? { labels: { 'example.com/rack': chance.pick(['r1', 'r2']) } } : {};
}

function requestFrom(chance: Seeded): AdmissionRequest {
  const created = createRequest(objectFrom(chance), metadataFrom(chance));
  const user = {
    username: chance.pick(['ada', 'mallory', RESTORER.user]),
    groups: chance.pick([['authors'], ['guests'], ['restorers']]),
  };
  const request = { ...created, userInfo: { ...created.userInfo, ...user } };
  if (chance.chance(0.5)) return request;
  const deleted = chance.chance(0.15)
    ? { deletionTimestamp: '2026-01-01T00:00:00Z', finalizers: ['a/b'] }
    : {};
  const before = createRequest(objectFrom(chance), { ...metadataFrom(chance), ...deleted }).object;
  return { ...request, operation: 'UPDATE', oldObject: before };
}

const TYPE = {
  ...{ group: GROUP, version: 'v1', resource: 'servers', kind: 'Server', namespaced: true, custom: true },
} as unknown as ResourceType; // what the evaluation reads

function questionOf(request: AdmissionRequest): Question {
  const { operation, name = '', namespace = '', userInfo, dryRun } = request;
  const object = request.object === undefined ? undefined : ofJson(request.object);
  const oldObject = request.oldObject === undefined ? undefined : ofJson(request.oldObject);
  const attributes = {
    ...{ operation: operation as 'CREATE' | 'UPDATE', type: TYPE, subresource: '', namespace, name, dryRun },
    ...{ user: { username: userInfo.username, groups: userInfo.groups }, options: {} },
  };
  return { uid: 'u', version: 'v1', attributes, seen: TYPE, object, oldObject };
}

interface Verdicts {
  readonly webhook: readonly string[];
  readonly native: readonly string[];
}

/** The messages of both. The webhook judges alone what the policy of the API server leaves to it. */
async function judge(
  policy: CompiledPolicy,
  native: ReturnType<typeof compilePolicy>,
  request: AdmissionRequest,
): Promise<Verdicts | 'left to the webhook'> {
  const { operation, oldObject, userInfo } = request;
  const isDeleted =
    operation === 'UPDATE' && valueIn(oldObject, 'metadata', 'deletionTimestamp') !== undefined;
  const isRestorer = userInfo.username === RESTORER.user || userInfo.groups.includes('restorers');
  const evaluated = evaluatePolicy(
    { ...native, ignoresFailures: false },
    questionOf(request),
    undefined,
    () => ({ allowed: false, reason: 'no policy asks' }),
  );
  const messages = evaluated.failures.map(({ message }) => message);
  if (isDeleted || isRestorer) {
    expect(messages).toEqual([]);
    return 'left to the webhook';
  }
  const decision = await validate(request, [policy], clusterOf());
  if (decision.kind === 'retry') throw new Error(decision.message);
  const said = decision.kind === 'deny' ? decision.message.split('; ') : decision.warnings;
  return { webhook: said, native: messages };
}

/** The API server explains an error of an expression in its own words, and does not show the new value of a field. */
const inCommon = (message: string): string =>
  /resulted in error: |could not be evaluated: /.test(message)
    ? 'an expression that cannot be evaluated'
    : message.replace(/ to ("[^"]*"|\[.*?\]|null|\d+|true|false)( later)?: /, '$2: ');

describe('both judge alike', () => {
  test.each(POLICIES.map((spec, index) => [index, spec] as const))('policy %i', async (index, spec) => {
    const policy = policyOf(spec, `policy-${index}`);
    const { checks, objects } = compileNative(policy, OPTIONS);
    expect(checks.filter(({ by }) => by === 'Webhook')).toEqual([]);
    const [object] = objects;
    const native = compilePolicy((object as unknown as { spec: JsonObject }).spec);
    const chance = createSeeded(index);
    let refused = 0;
    for (let pair = 0; pair < PAIRS / POLICIES.length; pair += 1) {
      const request = requestFrom(chance);
      const verdicts = await judge(policy, native, request);
      if (verdicts === 'left to the webhook') continue;
      if (verdicts.webhook.length > 0) refused += 1;
      const [webhook, own] = [verdicts.webhook, verdicts.native].map((messages) => messages.map(inCommon));
      if (JSON.stringify(webhook) !== JSON.stringify(own))
        expect({ request, said: own }).toEqual({ request, said: webhook });
    }
    expect(refused).toBeGreaterThan(100);
  });
});

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
  const { checks, objects } = compileNative(policy, OPTIONS);
  expect(objects).toEqual([]);
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
  const [object] = compileNative(policy, OPTIONS).objects;
  expect(object).toMatchObject({ metadata: { name: 'backstop-secrets.policies.gatehouse.dev' } });
  expect((object as unknown as { spec: { matchConditions: unknown[] } }).spec.matchConditions).toHaveLength(
    64,
  );
});
