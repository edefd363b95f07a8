/** Which checks compile for the API server, and why the webhook keeps the others. scripts/differential.ts compares the verdicts of both. */
import { expect, test } from 'vitest';

import { compileNative } from '../../src/admission/native/native-policy.ts';
import type { CompiledPolicy } from '../../src/admission/policy/compiled-policy.ts';
import { GROUP, policyOf } from '../support/admission/policy.ts';

const OPTIONS = {
  ownNamespace: 'gatehouse-system',
  restorers: [{ user: 'system:serviceaccount:velero:velero' }, { group: 'restorers' }],
  others: [],
};
const NEVER_REFUSES = 'a request whose matchConditions fail must be refused, and enforcement';

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

test('an expression has a line break only if a comment needs one: the API server drops a warning that quotes it', () => {
  const rules = ['object.spec.on', 'object.spec.on // x'].map((expression) => ({ expression }));
  const warning = compileNative(policyOf({ enforcement: 'Warn', validate: { rules } }), OPTIONS);
  const reason = expect.stringContaining('omits a warning that quotes one') as string;
  expect(warning.checks).toMatchObject([{ by: 'APIServer' }, { by: 'Webhook', reason }]);
  const { pairs } = compileNative(policyOf({ validate: { rules } }), OPTIONS);
  const validations = [
    { expression: '(object.spec.on) ? true : false' },
    { expression: '(object.spec.on // x\n) ? true : false' },
  ];
  expect(pairs).toMatchObject([{ policy: { spec: { validations } } }]);
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
  expect(byOf('dyn(object.spec.tier.orValue("a"))')).toEqual(['APIServer', 'APIServer']);
  expect(byOf('object.?spec.?tier.orValue("a")')).toEqual(['APIServer', 'APIServer']);
});

test('the webhook keeps a rule that may distinguish 2.0 from 2: the API server stores both as 2', () => {
  const byOf = (expression: string, apiGroups = [GROUP]) =>
    compileNative(
      policyOf({
        match: { apiGroups, resources: ['servers'] },
        variables: [{ name: 'sum', expression: 'object.spec.units + 1' }],
        validate: { rules: [{ name: 'number', expression }] },
      }),
      OPTIONS,
    ).checks.map(({ by }) => by)[0];
  for (const expression of [
    'type(dyn(object.spec).?units.orValue(9)) != int',
    'object.spec.units % 2 == 0',
    'object.spec.units / object.spec.?most.orValue(2) < 2',
    'object.spec.list.sum() < 3 || object.spec.list.map(one, one * 2).size() == 0',
    'string(object.spec.units) != "1000000"',
    'variables.sum < 3',
  ]) {
    expect(byOf(expression), expression).toBe('Webhook');
    expect(byOf(expression, ['apps']), expression).toBe('APIServer'); // with typed fields
  }
  for (const expression of [
    'int(object.spec.units) % 2 == 0 && object.spec.units in [1, 2]',
    'object.spec.tier + "-x" == "gold-x" && object.spec.units == 3',
    'object.spec.list.size() + 1 < 3 && object.spec.tier.startsWith("a")',
  ])
    expect(byOf(expression), expression).toBe('APIServer');
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

test('the webhook keeps checks that existing objects may violate', () => {
  const rules = [{ expression: 'object.spec.units < 5' }, { expression: 'oldObject == null' }];
  const spec = {
    existingViolations: 'Allow',
    validate: { immutable: ['spec.tier'], schema: {}, rules },
  } as const;
  const enforcersOf = (policy: CompiledPolicy) =>
    compileNative(policy, OPTIONS).checks.map((one) => (one.by === 'Webhook' ? one.reason : one.by));
  const reason = 'existing objects may violate it (existingViolations: Allow)';
  expect(enforcersOf(policyOf(spec))).toEqual(['APIServer', reason, 'APIServer']);
  expect(enforcersOf(policyOf({ ...spec, enforcement: 'Warn' }))).toEqual(Array(3).fill('APIServer'));
});
