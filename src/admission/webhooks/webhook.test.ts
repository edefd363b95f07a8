import { expect, test } from 'vitest';

import type { AdmissionPolicySpec } from '../../api/admission-policy.ts';
import { compileCel } from '../../cel/cel.ts';
import { policyOf } from '../../../test/support/admission/policy.ts';
import { webhookConfigurations } from './webhook-configurations.ts';
import type { WebhookTarget } from './webhook.ts';

const TARGET: WebhookTarget = {
  service: { namespace: 'gatehouse-system', name: 'gatehouse', port: 443 },
  caBundle: 'Q0E=',
  ownNamespace: 'gatehouse-system',
  restorers: [{ group: 'system:serviceaccounts:velero' }, { user: 'system:serviceaccount:"odd"\\:name' }],
};
const references = [{ name: 'dc', path: 'spec.dc', target: { apiGroup: '', resource: 'datacenters' } }];
const entriesOf = (target: WebhookTarget, failurePolicy: 'Fail' | 'Ignore' = 'Fail') =>
  webhookConfigurations([policyOf({ validate: { references }, failurePolicy })], target).validating.webhooks;

test('B4: restorers have a separate entry that fails open', () => {
  const [others, restorers, ...rest] = entriesOf(TARGET);
  expect(rest).toEqual([]);
  expect(others).toMatchObject({ failurePolicy: 'Fail' });
  expect(restorers).toMatchObject({
    failurePolicy: 'Ignore',
    rules: others?.rules,
    clientConfig: others?.clientConfig,
  });
  expect(restorers?.name).not.toBe(others?.name);
});

test.each([
  ['a member of the group', 'velero', ['system:serviceaccounts:velero'], true],
  ['the user', 'system:serviceaccount:"odd"\\:name', [], true],
  ['another user', 'alice', ['system:authenticated'], false],
])('each request matches exactly one of the two entries: %s', (_who, username, groups, isRestorer) => {
  const meets = entriesOf(TARGET).map(({ failurePolicy, matchConditions = [] }) => {
    const holds = matchConditions.every(
      ({ expression }) =>
        compileCel(expression, ['request']).evaluate({
          request: { userInfo: { username, groups } },
        }) === true,
    );
    return [failurePolicy, holds];
  });
  expect(meets).toEqual([
    ['Fail', !isRestorer],
    ['Ignore', isRestorer],
  ]);
});

test.each<[string, Partial<AdmissionPolicySpec>]>([
  ['rules', { validate: { references, rules: [{ expression: 'true' }] } }],
  ['a schema', { validate: { schema: { type: 'object' } } }],
  [
    'immutable fields, which no sweep can check',
    { validate: { immutable: ['spec.dc'] }, restore: { immutable: 'Skip' } },
  ],
  [
    'references that a restore must not defer',
    { validate: { references }, restore: { references: 'Enforce' } },
  ],
  [
    'rules about the request, although rules are deferred',
    {
      validate: { rules: [{ expression: 'request.userInfo.username != "x"' }] },
      restore: { rules: 'Defer' },
    },
  ],
  [
    'mutations that a restore applies',
    {
      validate: { references },
      mutations: [{ name: 'one', type: 'Merge', expression: '{"spec": {"a": 1}}' }],
      restore: { mutations: 'Apply' },
    },
  ],
])('a policy with %s also fails closed for restorers', (_what, spec) => {
  const { mutating, validating } = webhookConfigurations([policyOf(spec)], TARGET);
  const entries = [...mutating.webhooks, ...validating.webhooks];
  expect(entries.length).toBeGreaterThan(0);
  expect(entries.filter(({ failurePolicy }) => failurePolicy !== 'Fail')).toEqual([]);
  expect(entries.flatMap(({ matchConditions = [] }) => matchConditions)).toEqual([]);
});

test('immutable fields, which only updates can change, fail closed on updates', () => {
  const policy = policyOf({ validate: { references, immutable: ['spec.dc'] } });
  const entries = webhookConfigurations([policy], TARGET).validating.webhooks;
  expect(entries.map(({ failurePolicy, rules }) => [failurePolicy, rules[0]?.operations])).toEqual([
    ['Fail', ['CREATE', 'UPDATE']],
    ['Ignore', ['CREATE']],
    ['Fail', ['UPDATE']],
  ]);
});

test('a policy with strict checks does not make others in its entry fail closed', () => {
  const strict = policyOf(
    {
      match: { apiGroups: ['infra.example.com'], resources: ['racks'] },
      validate: { rules: [{ expression: 'true' }] },
    },
    'strict',
  );
  const entries = webhookConfigurations([policyOf({ validate: { references } }), strict], TARGET).validating
    .webhooks;
  expect(
    entries.map(({ failurePolicy, rules, matchConditions = [] }) => [
      failurePolicy,
      rules.flatMap(({ resources }) => resources).sort(),
      matchConditions.map(({ name }) => name),
    ]),
  ).toEqual([
    ['Fail', ['racks', 'servers'], ['not-restorer']],
    ['Ignore', ['servers'], ['restorer']],
    ['Fail', ['racks'], ['restorer']],
  ]);
  expect(new Set(entries.map(({ name }) => name)).size).toBe(3);
});

test.each<[string, Partial<WebhookTarget>, 'Fail' | 'Ignore']>([
  ['no detector names a restorer', { restorers: [] }, 'Fail'],
  ['the entry fails open for all users', {}, 'Ignore'],
])('a single entry remains where %s', (_where, change, failurePolicy) => {
  const entries = entriesOf({ ...TARGET, ...change }, failurePolicy);
  expect(entries).toMatchObject([{ failurePolicy }]);
  expect(entries[0]?.matchConditions).toBeUndefined();
});
