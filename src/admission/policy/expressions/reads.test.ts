/** What expressions read, per variable and per reference (issue 16, holes 3 and 16). */
import { describe, expect, test } from 'vitest';

import type { AdmissionPolicySpec } from '../../../api/admission-policy.ts';
import type { Decision } from '../../review/decision.ts';
import {
  clusterOf,
  compileSpec,
  createRequest,
  deleteRequest,
  GROUP,
  NIGHTLY,
  policyOf,
  updateRequest,
} from '../../../../test/support/admission/policy.ts';
import { forAudit } from '../audit.ts';
import { mutate } from '../mutate.ts';
import { validate } from '../validate.ts';

const reference = (name: string, resource: string, path = `spec.${name}`) => ({
  name,
  path,
  target: { apiGroup: GROUP, resource },
});
const REFERENCES = [reference('datacenter', 'datacenters'), reference('rack', 'racks')];
const FRA1 = `datacenters.${GROUP}/fra1`;
const fra1 = (capacity: number) => ({ metadata: { name: 'fra1' }, spec: { capacity } });

type Rules = NonNullable<NonNullable<AdmissionPolicySpec['validate']>['rules']>;
const specOf = (rules: Rules, rest: Partial<AdmissionPolicySpec> = {}): Partial<AdmissionPolicySpec> => ({
  validate: { references: REFERENCES, rules },
  ...rest,
});
const decide = (spec: Partial<AdmissionPolicySpec>, request = createRequest({}), cluster = clusterOf()) =>
  validate(request, [policyOf(spec)], cluster);
const messageOf = (decision: Decision) => (decision.kind === 'allow' ? '' : decision.message);
const FITS = {
  name: 'fits',
  expression: 'object.spec.units <= refs.datacenter.spec.capacity',
  message: 'too small',
};

describe('a dangling reference', () => {
  const dangling = { units: 3, datacenter: 'fra1', rack: 'r9' };

  test('does not disable a rule about another reference', async () => {
    const cluster = clusterOf({ stored: { [FRA1]: fra1(2) } });
    const decision = await decide(
      specOf([FITS]),
      updateRequest(dangling, { ...dangling, units: 4 }),
      cluster,
    );
    expect(messageOf(decision)).toContain('too small');
  });

  test('does not disable a rule that merely shares a variable list with rules about it', async () => {
    const variables = [
      { name: 'rack', expression: 'refs.rack.spec.height' },
      { name: 'units', expression: 'object.spec.units' },
    ];
    const rules = [{ name: 'few', expression: 'variables.units < 3' }];
    const decision = await decide(specOf(rules, { variables }), updateRequest(dangling, dangling));
    expect(messageOf(decision)).toContain('(rule few)');
  });

  test('that the update does not change does not disable the rules about it', async () => {
    const decision = await decide(specOf([FITS]), updateRequest(dangling, { ...dangling, units: 99 }));
    expect(messageOf(decision)).toBe(
      `could not be evaluated: refs.datacenter is absent: Datacenter "fra1" not found; create it or fix the name (${FITS.expression}) (rule fits) (policy servers)`,
    );
  });

  test('that an exception covers does not disable the rules about it', async () => {
    const exceptions = [{ name: 'any', reason: 'test', names: ['a'], checks: ['datacenter', 'rack'] }];
    const decision = await decide(specOf([FITS], { exceptions }), createRequest(dangling));
    expect(messageOf(decision)).toContain('refs.datacenter is absent');
  });

  test('does not disable rules on DELETE', async () => {
    const rules = [{ expression: 'refs.datacenter.spec.capacity < 3' }];
    const match = {
      apiGroups: [GROUP],
      resources: ['servers'],
      operations: ['CREATE' as const, 'DELETE' as const],
    };
    const decision = await decide(specOf(rules, { match }), deleteRequest(dangling));
    expect(messageOf(decision)).toContain('refs.datacenter is absent');
  });

  test('is absent for a rule that asks for it', async () => {
    const rules = [{ expression: '!has(refs.datacenter) || refs.datacenter.spec.capacity > 5' }];
    expect(await decide(specOf(rules), updateRequest(dangling, dangling))).toMatchObject({ kind: 'allow' });
  });

  test('leaves out only the message of rules that depend on it', async () => {
    const rules = [
      FITS,
      { expression: 'object.spec.units < 3 && refs.datacenter.spec.capacity > 0', message: 'many' },
    ];
    const message = messageOf(await decide(specOf(rules), createRequest({ ...dangling, rack: '' })));
    expect(message).toContain('not found; create it or fix the name');
    expect(message).toContain('many');
    expect(message).not.toContain('fits');
  });
});

describe('in a restore', () => {
  const request = createRequest({ units: 3, datacenter: 'fra1' });
  const restoring = {
    ...clusterOf(),
    world: { ...clusterOf().world, restoreEvidence: () => Promise.resolve(NIGHTLY) },
  };

  test('a rule is deferred together with the dangling reference on which it depends', async () => {
    expect(await decide(specOf([FITS]), request, restoring)).toMatchObject({
      kind: 'allow',
      auditAnnotations: { deferred: `servers/datacenter=${FRA1}` },
    });
  });

  test.each([
    ['is false regardless of the target', 'object.spec.units < 3 && refs.datacenter.spec.capacity > 0'],
    ['reads the user, and cannot be swept', 'request.userInfo.username == refs.datacenter.spec.owner'],
  ])('a rule that %s is enforced', async (_what, expression) => {
    expect(await decide(specOf([{ expression }]), request, restoring)).toMatchObject({ kind: 'deny' });
  });
});

describe('a rule about the state', () => {
  const variables = [
    { name: 'who', expression: 'request.userInfo.username' },
    { name: 'few', expression: 'object.spec.units < 3' },
  ];
  const spec = { variables, validate: { rules: [{ expression: 'variables.few', message: 'many' }] } };

  test('stays one if another variable reads the request', async () => {
    const deletionTimestamp = '2026-11-21T11:00:00Z';
    const leaving = {
      ...updateRequest({ units: 9 }, { units: 9 }, { deletionTimestamp, finalizers: [] }),
      oldObject: createRequest({ units: 9 }, { deletionTimestamp, finalizers: ['example.com/a'] }).object,
    };
    expect(await decide(spec, leaving)).toMatchObject({ kind: 'allow' });
  });

  test('is not one if a macro variable only looks like the request', () => {
    const { rules } = forAudit(
      policyOf({ validate: { rules: [{ expression: '[1].all(request, request == 1)' }] } }),
    );
    expect(rules).toHaveLength(1);
  });

  test.each([
    'variables.who == "ada"',
    'variables["who"] == "ada"',
    'has(variables.who)',
    'variables.?who == optional.none()',
  ])('is not one with %s', (expression) => {
    expect(forAudit(policyOf({ variables, validate: { rules: [{ expression }] } })).rules).toEqual([]);
  });
});

describe('a policy is rejected if an expression', () => {
  const variables = [
    { name: 'first', expression: '1' },
    { name: 'second', expression: 'variables.first + 1' },
  ];

  test.each([
    [
      'asks for an unknown variable',
      'has(variables.typo)',
      'variables["typo"] does not exist: declare it in spec.variables',
    ],
    [
      'reads variables as a whole',
      'variables.all(v, variables[v] == 1)',
      'uses variables as a whole: write variables.<name>, so that Gatehouse knows which it reads',
    ],
  ])('%s', (_what, expression, message) => {
    expect(compileSpec(specOf([{ expression }], { variables }))).toMatchObject({
      kind: 'rejected',
      reason: 'InvalidExpression',
      problems: [{ where: 'spec.validate.rules[0].expression', message }],
    });
  });

  test.each(['variables.second', 'variables.first'])(
    'of a variable reads a later one or itself: %s',
    (expression) => {
      const [, second] = variables;
      const result = compileSpec({
        variables: [{ name: 'first', expression }, ...(second === undefined ? [] : [second])],
      });
      expect(result).toMatchObject({
        kind: 'rejected',
        problems: [{ where: 'spec.variables[0].expression' }],
      });
      expect(JSON.stringify(result)).toContain('is not declared before this variable');
    },
  );

  test('of a mutation reads refs through a variable', () => {
    const spec = {
      variables: [{ name: 'site', expression: 'refs.datacenter.metadata.name' }],
      defaults: [{ path: 'spec.site', expression: 'variables.site' }],
    };
    const result = compileSpec(specOf([], spec));
    expect(JSON.stringify(result)).toContain('defaults and mutations cannot read targets');
  });
});

test('missing params with whenMissing Allow skip only the changes that read them', async () => {
  const policy = policyOf({
    params: { apiGroup: '', resource: 'configmaps', name: 'limits', whenMissing: 'Allow' },
    variables: [
      { name: 'limit', expression: 'params.data.units' },
      { name: 'zone', expression: '"a"' },
    ],
    defaults: [
      { path: 'spec.limit', expression: 'variables.limit' },
      { path: 'spec.zone', expression: 'variables.zone' },
    ],
  });
  expect(await mutate(createRequest({}), [policy], clusterOf())).toMatchObject({
    patch: [{ path: '/spec/zone', value: 'a' }],
  });
});
