/** Rules, schemas, warnings, audit annotations and exceptions, tested through requests. */
import { describe, expect, test } from 'vitest';

import type { AdmissionPolicySpec } from '../../../api/admission-policy.ts';
import type { Decision } from '../../review/decision.ts';
import type { AdmissionRequest } from '../../review/request.ts';
import {
  clusterOf,
  DATACENTER,
  compileSpec,
  createRequest,
  GROUP,
  policyOf,
  updateRequest,
} from '../../../../test/support/admission/policy.ts';
import { validate } from '../validate.ts';

const FRA1 = `datacenters.${GROUP}/fra1`;
const fra1 = (capacity: number) => ({ metadata: { name: 'fra1' }, spec: { capacity } });

const decide = (
  spec: Partial<AdmissionPolicySpec>,
  request = createRequest({ units: 3 }),
  cluster = clusterOf(),
) => validate(request, [policyOf(spec)], cluster);
const rule = (expression: string, rest: object = {}) => ({ validate: { rules: [{ expression, ...rest }] } });
const messageOf = (decision: Decision) => (decision.kind === 'allow' ? '' : decision.message);

describe('a rule', () => {
  test('has its own message, field and reason', async () => {
    const decision = await decide(
      rule('object.spec.units < 3', {
        name: 'few-units',
        messageExpression: '"at most 2 units, not " + string(object.spec.units)',
        message: 'unused',
        fieldPath: 'spec.units',
        reason: 'Invalid',
      }),
    );
    expect(decision).toMatchObject({
      kind: 'deny',
      code: 422,
      reason: 'Invalid',
      message: 'spec.units: at most 2 units, not 3 (rule few-units) (policy servers)',
      causes: [
        {
          field: 'spec.units',
          reason: 'FieldValueInvalid',
          message: 'at most 2 units, not 3 (rule few-units) (policy servers)',
        },
      ],
    });
  });

  test.each([
    ['fails', 'object.spec.nothing'],
    ['is empty', '"  "'],
    ['has nothing but the spaces of Go', '"\\u0085"'],
    ['has a line break', '"two\\nlines"'],
    ['has a control character', '"a\\u0000b"'],
    ['has a character that turns the direction', '"a\\u202eb"'],
  ])('uses its message if its messageExpression %s', async (_what, messageExpression) => {
    const decision = await decide(rule('false', { message: 'never', messageExpression }));
    expect(messageOf(decision)).toBe('never (policy servers)');
  });

  test.each(['Fail', 'Ignore'] as const)(
    'with an evaluation error refuses under failurePolicy %s and reports the error',
    async (failurePolicy) => {
      const decision = await decide({ ...rule('object.spec.missing > 1'), failurePolicy });
      expect(messageOf(decision)).toBe(
        'could not be evaluated: no such key: missing (object.spec.missing > 1) (policy servers)',
      );
    },
  );

  test('padding that exceeds the cost limit does not bypass a rule, even under failurePolicy Ignore', async () => {
    const all = 'object.spec.list.all(a, object.spec.list.all(b, object.spec.list.all(c, a + b + c >= 0)))';
    const list = Array.from({ length: 2_000 }, () => 1);
    const decision = await decide({ ...rule(all), failurePolicy: 'Ignore' }, createRequest({ list }));
    expect(decision.kind).toBe('deny');
  });

  test('is unaffected by a broken variable that it does not read', async () => {
    const variables = [
      { name: 'broken', expression: 'object.spec.nothing.at.all' },
      { name: 'fine', expression: '1' },
    ];
    expect(await decide({ ...rule('variables.fine == 1'), variables })).toMatchObject({ kind: 'allow' });
    expect(await decide({ ...rule('variables.broken == 1'), variables })).toMatchObject({ kind: 'deny' });
  });
});

describe('refs', () => {
  const spec = {
    validate: {
      references: [DATACENTER],
      rules: [{ expression: 'object.spec.units <= refs.datacenter.spec.capacity', message: 'too small' }],
    },
  };
  const request = createRequest({ units: 3, datacenter: 'fra1' });

  test('are the objects that references name, read from the store', async () => {
    const cluster = clusterOf({ stored: { [FRA1]: fra1(3) } });
    expect(await decide(spec, request, cluster)).toMatchObject({ kind: 'allow' });
    expect(cluster.reads).toEqual([]);
  });

  test('are read live before a refusal', async () => {
    const grown = clusterOf({ stored: { [FRA1]: fra1(2) }, live: { [FRA1]: fra1(3) } });
    expect(await decide(spec, request, grown)).toMatchObject({ kind: 'allow' });
    const small = clusterOf({ stored: { [FRA1]: fra1(2) } });
    expect(messageOf(await decide(spec, request, small))).toContain('too small');
    expect(small.reads).toEqual([FRA1]);
  });

  const gone = { datacenter: 'fra1', units: 3 };
  const varying = {
    ...spec,
    variables: [{ name: 'units', expression: 'object.spec.units' }],
    validate: {
      ...spec.validate,
      rules: [{ expression: 'variables.units <= refs.datacenter.spec.capacity' }],
    },
  };
  test.each<[string, Partial<AdmissionPolicySpec>, AdmissionRequest, string]>([
    ['another field', spec, updateRequest({ ...gone, note: 'a' }, { ...gone, note: 'b' }), 'allow'],
    ['a label', varying, updateRequest(gone, gone, { labels: { note: 'b' } }), 'allow'],
    ['what the rule reads', spec, updateRequest({ ...gone, units: 1 }, gone), 'deny'],
    ['what a variable of the rule reads', varying, updateRequest({ ...gone, units: 1 }, gone), 'deny'],
    ['the reference', spec, updateRequest({ ...gone, datacenter: 'muc1' }, gone), 'deny'],
    [
      'nothing, but who changes it counts',
      {
        validate: {
          ...spec.validate,
          rules: [{ expression: 'request.userInfo.username == refs.datacenter.spec.owner' }],
        },
      },
      updateRequest(gone, gone),
      'deny',
    ],
    [
      'the label that selects it',
      {
        ...spec,
        match: {
          apiGroups: [GROUP],
          resources: ['servers'],
          objectSelector: { matchLabels: { tier: 'a' } },
        },
      },
      updateRequest(gone, gone, { labels: { tier: 'a' } }),
      'deny',
    ],
    [
      'a field that a match condition on the user reads',
      {
        ...spec,
        match: {
          apiGroups: [GROUP],
          resources: ['servers'],
          matchConditions: [
            { name: 'on', expression: 'has(object.spec.on) && request.userInfo.username != "root"' },
          ],
        },
      },
      updateRequest(gone, { ...gone, on: true }),
      'deny',
    ],
  ])(
    'of a target that has disappeared do not block an update of %s: %s',
    async (_what, policy, update, kind) => {
      expect(await decide(policy, update)).toMatchObject({ kind });
    },
  );

  test('that cannot be read live before a refusal make the client retry', async () => {
    const cluster = clusterOf({ stored: { [FRA1]: fra1(2) }, live: { [FRA1]: 'connection refused' } });
    expect(await decide(spec, request, cluster)).toMatchObject({ kind: 'retry' });
    expect(await decide({ ...spec, enforcement: 'Warn' }, request, cluster)).toMatchObject({ kind: 'allow' });
  });

  test('with a path over a list are a list', async () => {
    const list = {
      validate: {
        references: [{ ...DATACENTER, path: 'spec.sites[*].datacenter' }],
        rules: [
          {
            expression:
              'refs.datacenter.map(d, d.spec.capacity).exists(c, c > 2) && refs.datacenter.size() == 2',
          },
        ],
      },
    };
    const stored = { [FRA1]: fra1(1), [`datacenters.${GROUP}/fra2`]: fra1(3) };
    const sites = [{ datacenter: 'fra1' }, { datacenter: 'fra2' }];
    expect(await decide(list, createRequest({ sites }), clusterOf({ stored }))).toMatchObject({
      kind: 'allow',
    });
  });

  test('need whole objects only where an expression reads them', () => {
    expect(policyOf(spec).targets).toMatchObject([{ resource: 'datacenters', whole: true }]);
    expect(policyOf({ validate: { references: [DATACENTER] } }).targets).toMatchObject([{ whole: false }]);
  });
});

test('params that do not exist refuse the request and say what to create', async () => {
  const params = { apiGroup: '', resource: 'configmaps', name: 'limits' };
  expect(messageOf(await decide({ params, ...rule('object.spec.units <= int(params.data.units)') }))).toBe(
    'configmaps "limits" in namespace "store" not found; create it, because the policy reads its values (policy servers)',
  );
});

test('namespaceObject is the Namespace of the object', async () => {
  const spec = rule('namespaceObject.metadata.labels.tier == "gold"');
  const gold = { 'namespaces/store': { metadata: { name: 'store', labels: { tier: 'gold' } } } };
  expect(await decide(spec, createRequest({}), clusterOf({ stored: gold }))).toMatchObject({ kind: 'allow' });
  expect(await decide(spec, createRequest({}), clusterOf({ live: gold }))).toMatchObject({ kind: 'allow' });
});

describe('a schema', () => {
  const schema = {
    type: 'object',
    properties: {
      spec: {
        type: 'object',
        required: ['serial'],
        properties: {
          serial: { type: 'string', pattern: '^[A-Z]{2}[0-9]+$' },
          contact: { type: 'string', format: 'email' },
          units: { type: 'integer', maximum: 4 },
          tier: { enum: ['gold', 'silver'] },
          disks: {
            type: 'array',
            uniqueItems: true,
            items: { type: 'object', properties: { size: { type: 'integer' } } },
          },
        },
        dependentRequired: { tier: ['contact'] },
      },
    },
  };
  const check = (spec: object) => decide({ validate: { schema } }, createRequest(spec as never));

  test.each([
    ['required', {}, 'spec.serial', 'FieldValueRequired'],
    ['format', { serial: 'AB1', contact: 'x' }, 'spec.contact', 'FieldValueInvalid'],
    ['an int64 beyond 2^53', { serial: 'AB1', units: 9007199254740993n }, 'spec.units', 'FieldValueInvalid'],
    ['type', { serial: 'AB1', units: 'x' }, 'spec.units', 'FieldValueTypeInvalid'],
    [
      'enum',
      { serial: 'AB1', tier: 'iron', contact: 'a@example.com' },
      'spec.tier',
      'FieldValueNotSupported',
    ],
    ['dependentRequired', { serial: 'AB1', tier: 'gold' }, 'spec.contact', 'FieldValueRequired'],
    [
      'uniqueItems',
      {
        serial: 'AB1',
        disks: [
          { size: 1, b: 2 },
          { b: 2, size: 1 },
        ],
      },
      'spec.disks',
      'FieldValueInvalid',
    ],
    [
      'an element',
      { serial: 'AB1', disks: [{}, { size: 'x' }] },
      'spec.disks[1].size',
      'FieldValueTypeInvalid',
    ],
  ])('returns the field that violates %s', async (_what, spec, field, reason) => {
    expect(await check(spec)).toMatchObject({ kind: 'deny', causes: [{ field, reason }] });
  });

  test.each([
    ['an unknown keyword', { type: 'object', requierd: ['a'] }, 'requierd'],
    ['a pattern that is not RE2', { pattern: '(?=a)' }, 'invalid'],
    ['a $ref without a target', { $ref: '#/$defs/nothing' }, 'nothing'],
  ])('with %s is rejected when the policy is compiled', (_what, broken, words) => {
    const result = compileSpec({ validate: { schema: broken } });
    expect(result).toMatchObject({
      kind: 'rejected',
      reason: 'InvalidSchema',
      problems: [{ where: 'spec.validate.schema' }],
    });
    expect(JSON.stringify(result).toLowerCase()).toContain(words.toLowerCase());
  });

  test('reports one violation of an object with a hundred thousand', async () => {
    const disks = Array.from({ length: 100_000 }, () => ({ size: 'x' }));
    const decision = await check({
      serial: 'AB1',
      disks: disks.map((disk, size) => ({ ...disk, size: `${size}` })),
    });
    expect(decision).toMatchObject({ kind: 'deny', causes: { length: 1 } });
  });

  test('with recursion refuses an object of excessive depth and does not crash', async () => {
    const recursive = {
      $defs: { node: { properties: { child: { $ref: '#/$defs/node' } } } },
      properties: { spec: { $ref: '#/$defs/node' } },
    };
    let deep: object = {};
    for (let depth = 0; depth < 200_000; depth += 1) deep = { child: deep };
    const decision = await decide({ validate: { schema: recursive } }, createRequest(deep as never));
    expect(messageOf(decision)).toContain('nested too deeply');
  });
});

describe('warnings and audit annotations', () => {
  test('are added where their condition is true', async () => {
    const decision = await decide({
      warnings: [
        {
          condition: 'object.spec.units > 2',
          messageExpression: '"many units: " + string(object.spec.units)',
        },
        { condition: 'object.spec.units > 9', message: 'far too many' },
        { message: 'servers are deprecated' },
      ],
      auditAnnotations: [
        { key: 'units', valueExpression: 'object.spec.units' },
        { key: 'nothing', valueExpression: 'null' },
        { key: 'list', valueExpression: '[1, "a"]' },
      ],
    });
    expect(decision).toMatchObject({
      kind: 'allow',
      warnings: ['many units: 3', 'servers are deprecated'],
      auditAnnotations: { units: '3', list: '[1,"a"]' },
    });
  });

  test('with evaluation errors refuse nothing and are noted', async () => {
    const decision = await decide({
      auditAnnotations: [{ key: 'x', valueExpression: 'object.spec.nothing' }],
    });
    expect(decision).toMatchObject({
      kind: 'allow',
      auditAnnotations: { 'expression-errors': 'servers/x could not be evaluated: no such key: nothing' },
    });
  });

  test('from two policies with one key are both kept', async () => {
    const note = (value: string) => ({ auditAnnotations: [{ key: 'who', valueExpression: `"${value}"` }] });
    const decision = await validate(
      createRequest({}),
      [policyOf(note('a'), 'a'), policyOf(note('b'), 'b')],
      clusterOf(),
    );
    expect(decision).toMatchObject({ auditAnnotations: { who: 'a, b' } });
  });

  test('cannot imitate those of Gatehouse', () => {
    const result = compileSpec({ auditAnnotations: [{ key: 'violations', valueExpression: '"none"' }] });
    expect(result).toMatchObject({ kind: 'rejected', problems: [{ where: 'spec.auditAnnotations[0].key' }] });
  });
});

describe('an exception', () => {
  const refused = rule('false', { name: 'never', message: 'no' });
  const exception = { name: 'migration', reason: 'until the new racks are there' };

  test.each([
    ['that covers everything', {}, 'covers everything'],
    ['for an unknown check', { users: ['a'], checks: ['nothing'] }, 'is not a check of this policy'],
    ['with an invalid time', { users: ['a'], expiresAt: 'soon' }, 'not a time'],
  ])('%s is refused', (_what, part, words) => {
    const result = compileSpec({ ...refused, exceptions: [{ ...exception, ...part }] });
    expect(JSON.stringify(result)).toContain(words);
  });
});

test('a required reference must be present, except in objects that never had it', async () => {
  const spec = { validate: { references: [{ ...DATACENTER, optional: false }] } };
  expect(await decide(spec, createRequest({}))).toMatchObject({
    kind: 'deny',
    causes: [{ field: 'spec.datacenter', reason: 'FieldValueRequired' }],
  });
  expect(await decide(spec, updateRequest({}, { units: 1 }))).toMatchObject({ kind: 'allow' });
  expect(await decide(spec, updateRequest({ datacenter: 'fra1' }, {}))).toMatchObject({ kind: 'deny' });
});
