import { describe, expect, test } from 'vitest';

import { policyOf, updateRequest } from '../../../test/support/admission/policy.ts';
import { webhookConfigurations } from '../webhooks/webhook-configurations.ts';
import type { CompiledPolicy } from '../policy/compiled-policy.ts';
import { compileCel } from '../../cel/cel.ts';
import { type JsonObject, listIn, textIn } from '../../json/json.ts';
import { accountsIn, CONTROLLERS_ACCOUNT } from '../../api/own-accounts.ts';
import { OWNER_RECORD_ANNOTATION } from '../../api/owner-record.ts';
import { IS_DELETED, isLeftToWebhook, judgedByWebhook, withoutNative, type Release } from './release.ts';
import { compileNative } from './native-policy.ts';

const RULES = { rules: [{ name: 'small', expression: 'object.spec.units < 5' }] };
const UNIQUE = { unique: [{ name: 'serial', paths: ['spec.serial'] }] };
const VELERO = { user: 'system:serviceaccount:velero:velero' };
const TARGET = {
  service: { namespace: 'g', name: 'g', port: 443 },
  caBundle: '',
  ownNamespace: 'g',
};

function releaseOf(policy: CompiledPolicy, restorers: Release['restorers'] = []): Release {
  const { checks } = compileNative(policy, { ownNamespace: 'g', restorers, others: [] });
  const remaining = withoutNative(policy, checks, new Set(['policies', 'changes']));
  return { policy, remaining, restorers, digest: 'd' };
}

const entriesOf = (policy: CompiledPolicy, restorers: Release['restorers'] = []) =>
  webhookConfigurations([policy], TARGET, [], () => releaseOf(policy, restorers)).validating.webhooks.map(
    ({ name, matchConditions = [] }) => [name.split('.').slice(1).join('.'), matchConditions[0]?.expression],
  );

test('an entry without other checks keeps only what the API server leaves to the webhook', () => {
  const policy = policyOf({ validate: RULES });
  expect(entriesOf(policy)).toEqual([
    ['left.validate.gatehouse.dev', 'oldObject.?metadata.?deletionTimestamp.hasValue()'],
  ]);
  expect(entriesOf(policy, [VELERO])[0]?.[1]).toContain(VELERO.user);
});

test('a policy that the API server enforces does not wait for Gatehouse because of another one in its scope', () => {
  const matchOf = (resource: string) => ({ apiGroups: ['infra.example.com'], resources: [resource] });
  const enforced = policyOf({ match: matchOf('servers'), validate: RULES });
  const judged = policyOf({ match: matchOf('racks'), validate: { ...RULES, ...UNIQUE } });
  const { validating } = webhookConfigurations([enforced, judged], TARGET, [], releaseOf);
  const calls = validating.webhooks.map(({ name, rules }) => [
    name.includes('.left.') ? 'left' : 'all',
    ...rules.map(({ resources, operations }) => `${resources.join()}: ${operations.join()}`),
  ]);
  expect(calls).toEqual([
    ['all', 'racks: CREATE,UPDATE'],
    ['left', 'servers: CREATE,UPDATE'],
  ]);
});

test('an entry disappears if the API server leaves nothing to the webhook', () => {
  const match = { apiGroups: ['infra.example.com'], resources: ['servers'], operations: ['CREATE' as const] };
  expect(entriesOf(policyOf({ match, validate: RULES }))).toEqual([]);
  expect(entriesOf(policyOf({ match, validate: RULES }), [VELERO])).toHaveLength(1);
});

test('a policy with nothing but immutableFromCreation has an entry', () => {
  const policy = policyOf({ validate: { immutableFromCreation: ['spec.tier'] } });
  expect(webhookConfigurations([policy], TARGET).validating.webhooks).toHaveLength(1);
});

describe('of two rules with one name', () => {
  const named = (...expressions: readonly string[]) =>
    expressions.map((expression) => ({ name: 'small', expression }));

  test('the webhook keeps the one that the API server cannot enforce', () => {
    const references = [
      { name: 'dc', path: 'spec.dc', target: { apiGroup: 'infra.example.com', resource: 'datacenters' } },
    ];
    const rules = named('object.spec.units < 5', 'refs.dc.spec.open');
    const { remaining } = releaseOf(policyOf({ validate: { references, rules } }));
    expect(remaining.rules.map(({ expression }) => expression.program.expression)).toContain(
      'refs.dc.spec.open',
    );
  });

  test('the webhook keeps the one whose part is not confirmed', () => {
    const params = {
      apiGroup: 'infra.example.com',
      resource: 'limits',
      name: 'all',
      whenMissing: 'Allow',
    } as const;
    const rules = named('object.spec.units < 5', 'object.spec.units < params.spec.most');
    const { remaining } = releaseOf(policyOf({ params, validate: { rules } }));
    expect(remaining.rules.map(({ expression }) => expression.program.expression)).toContain(
      'object.spec.units < params.spec.most',
    );
  });

  test('a restore may defer the one about the state of the object', () => {
    const rules = named('object.spec.units < 5', 'request.operation != "UPDATE"');
    const policy = policyOf({ restore: { rules: 'Defer' }, validate: { rules } });
    const { checks } = compileNative(policy, { ownNamespace: 'g', restorers: [], others: [] });
    expect(checks.map(({ by }) => by)).toEqual(['Webhook', 'APIServer']);
  });
});

test('the webhook judges everything of objects in deletion and of restorers', () => {
  const policy = policyOf({ validate: { ...RULES, ...UNIQUE } });
  const release = releaseOf(policy, [VELERO]);
  const request = updateRequest({}, { units: 9 });
  const judged = judgedByWebhook(policy, release, request);
  expect([judged.rules, judged.unique.length]).toEqual([[], 1]);
  const deleted = { ...request.oldObject, metadata: { deletionTimestamp: '2026-01-01T00:00:00Z' } };
  expect(judgedByWebhook(policy, release, { ...request, oldObject: deleted })).toBe(policy);
  const userInfo = { ...request.userInfo, username: VELERO.user };
  expect(judgedByWebhook(policy, release, { ...request, userInfo })).toBe(policy);
  expect(judgedByWebhook(policy, undefined, request)).toBe(policy);
});

test.each<[string, JsonObject, boolean]>([
  ['the leader', { username: `${accountsIn('g')}${CONTROLLERS_ACCOUNT}` }, false],
  ['another account', { username: `${accountsIn('shop')}${CONTROLLERS_ACCOUNT}` }, true],
  ['a user without a name', {}, true],
])('whether the API server judges links of owners by %s', (_who, userInfo, expected) => {
  const [pair] = compileNative(policyOf({ validate: RULES }), {
    ownNamespace: 'g',
    restorers: [],
    others: [],
  }).pairs;
  const condition = textIn(listIn(pair?.policy, 'spec', 'matchConditions').at(-1), 'expression');
  const oldObject = { metadata: { annotations: { [OWNER_RECORD_ANNOTATION]: '{}' } } };
  const object = { metadata: { ...oldObject.metadata, ownerReferences: [] } };
  const values = { request: { operation: 'UPDATE', userInfo }, object, oldObject };
  expect(compileCel(condition, Object.keys(values)).evaluate(values)).toBe(expected);
});

test.each<[string, JsonObject | undefined]>([
  ['no old object', undefined],
  ['null as deletionTimestamp', { metadata: { deletionTimestamp: null } }],
  ['a deletionTimestamp', { metadata: { deletionTimestamp: '2026-01-01T00:00:00Z' } }],
])('the condition of the compiled policy and the webhook agree about %s', (_what, oldObject) => {
  const condition = compileCel(IS_DELETED, { oldObject: 'dyn' });
  const request = { ...updateRequest({}, {}), oldObject };
  const isLeft = condition.evaluate({ oldObject: oldObject ?? null });
  expect(isLeftToWebhook({ exceptions: [] }, [], request)).toBe(isLeft);
});

test('a policy whose defaults the API server fills has a mutating entry only for what is left', () => {
  const defaults = [{ path: 'spec.units', value: 1 }];
  const entries = (policy: CompiledPolicy) =>
    webhookConfigurations([policy], TARGET, [], () => releaseOf(policy)).mutating.webhooks.map(
      ({ name, matchConditions = [] }) => [name.includes('.left.'), matchConditions[0]?.expression],
    );
  expect(entries(policyOf({ defaults }))).toEqual([
    [true, 'oldObject.?metadata.?deletionTimestamp.hasValue()'],
  ]);
  const match = { apiGroups: ['infra.example.com'], resources: ['servers'], operations: ['CREATE' as const] };
  expect(entries(policyOf({ match, defaults }))).toEqual([]);
  expect(entries(policyOf({ defaults, owners: { preserve: true } }))).toEqual([[false, undefined]]);
});

const IMMUTABLE = { validate: { immutable: ['spec.tier'] } };
const SCHEMA = { validate: { schema: { properties: { spec: { required: ['tier'] } } } } };

describe.each([
  ['with', [{ name: 'small', expression: 'object.spec.units < 5' }]],
  ['without', []],
])(
  '%s match conditions, the API server judges the operations for which it would ask the webhook',
  (_which, matchConditions) => {
    const all = ['CREATE', 'DELETE', 'UPDATE'] as const;
    const pairsOf = (spec: object) => {
      const match = {
        apiGroups: ['infra.example.com'],
        resources: ['servers'],
        operations: all,
        matchConditions,
      };
      const policy = policyOf({ match, ...spec });
      return compileNative(policy, { ownNamespace: 'g', restorers: [], others: [] }).pairs;
    };

    test.each([
      ['immutable fields', IMMUTABLE, ['UPDATE']],
      ['a schema', SCHEMA, ['CREATE', 'UPDATE']],
      [
        'immutable fields and a schema',
        { validate: { ...IMMUTABLE.validate, ...SCHEMA.validate } },
        ['CREATE', 'UPDATE'],
      ],
      ['immutable fields and a notice', { ...IMMUTABLE, warnings: [{ message: 'a' }] }, all],
    ])('%s', (_what, spec, operations) => {
      const [pair] = pairsOf(spec);
      expect(pair?.policy).toMatchObject({ spec: { matchConstraints: { resourceRules: [{ operations }] } } });
    });
  },
);

test('the webhook fills the defaults of objects that are being deleted', () => {
  const policy = policyOf({ defaults: [{ path: 'spec.units', value: 1 }] });
  const release = releaseOf(policy);
  const request = updateRequest({}, {});
  const defaultsFor = (metadata: JsonObject) =>
    judgedByWebhook(policy, release, { ...request, oldObject: { ...request.oldObject, metadata } }).defaults
      .length;
  expect([defaultsFor({}), defaultsFor({ deletionTimestamp: '2026-01-01T00:00:00Z' })]).toEqual([0, 1]);
});

test.each<[JsonObject, JsonObject, boolean]>([
  [{ if: { required: ['a'] }, then: { required: ['b'] } }, {}, true],
  [{ if: { required: ['a'] }, then: { required: ['b'] } }, { a: 1 }, false],
  [{ if: { required: ['a'] }, else: { required: ['b'] } }, { a: 1 }, true],
  [{ if: { required: ['a'] }, else: { required: ['b'] } }, {}, false],
])(
  'a negated schema without one of its branches is compiled exactly: %j holds for %j: %s',
  (not, value, holds) => {
    const policy = policyOf({ validate: { schema: { not } } });
    const [check] = compileNative(policy, { ownNamespace: 'g', restorers: [], others: [] }).checks;
    const condition = check?.by === 'APIServer' ? check.validations[0]?.expression : undefined;
    const [variable = ''] = /(?<=variables\.)\w+/.exec(condition ?? '') ?? [];
    const expression = compileCel(condition ?? '', { variables: 'dyn' });
    expect(expression.evaluate({ variables: { [variable]: [value] } })).toBe(!holds);
  },
);

test('the webhook keeps a warning that adds numbers of unknown type', () => {
  const warnings = [{ condition: 'object.spec.units + object.spec.spare > 5', message: 'many' }];
  const { checks } = compileNative(policyOf({ warnings }), { ownNamespace: 'g', restorers: [], others: [] });
  expect(checks).toMatchObject([{ check: 'warnings', by: 'Webhook' }]);
});

test('an audit annotation that is too long for the API server stays in the webhook', () => {
  const enforcerOf = (bytes: number) => {
    const valueExpression = JSON.stringify('x'.repeat(bytes - 2));
    const policy = policyOf({ auditAnnotations: [{ key: 'a', valueExpression }] });
    return compileNative(policy, { ownNamespace: 'g', restorers: [], others: [] }).checks.map(({ by }) => by);
  };
  expect([enforcerOf(5_120), enforcerOf(5_121)]).toEqual([['APIServer'], ['Webhook']]);
});
