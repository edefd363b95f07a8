import { describe, expect, test } from 'vitest';

import type { AdmissionPolicySpec } from '../../api/admission-policy.ts';
import { compilePolicy, type CompileEnvironment } from './compile.ts';

const environment: CompileEnvironment = {
  ownNamespace: 'gatehouse-system',
  resolve: ({ resource }) =>
    ({
      datacenters: { kind: 'Datacenter', namespaced: false },
      servers: { kind: 'Server', namespaced: true },
      racks: { kind: 'Rack', namespaced: true },
      rooms: { kind: 'Room', namespaced: false },
    })[resource],
};

const group = 'infra.example.com';
const datacenter = {
  name: 'datacenter',
  path: 'spec.datacenter',
  target: { apiGroup: group, resource: 'datacenters' },
};
const rack = { name: 'rack', path: 'spec.racks[*].name', target: { apiGroup: group, resource: 'racks' } };
const match = { apiGroups: [group], resources: ['servers'] };

const compile = (spec: Partial<AdmissionPolicySpec>, change: Partial<CompileEnvironment> = {}) =>
  compilePolicy(
    { metadata: { name: 'servers', generation: 3 }, spec: { match, ...spec } },
    { ...environment, ...change },
  );

describe('the entry', () => {
  const entry = (spec: Partial<AdmissionPolicySpec>) => {
    const result = compile(spec);
    return result.kind === 'compiled' ? result.policy.entryId : result.problems;
  };
  const selector = {
    matchLabels: { a: '1', b: '2' },
    matchExpressions: [{ key: 'c', operator: 'In', values: ['x', 'y'] }],
  } as const;
  const spelledOtherwise = {
    matchExpressions: [{ key: 'c', operator: 'In', values: ['y', 'x'] }],
    matchLabels: { b: '2', a: '1' },
  } as const;

  test('is shared by policies of equal scope, however the scope is written', () => {
    expect(entry({ match: { ...match, resources: ['racks'] } })).toBe(
      entry({ failurePolicy: 'Fail', timeoutSeconds: 5 }),
    );
    expect(entry({ match: { ...match, namespaceSelector: selector } })).toBe(
      entry({ match: { ...match, namespaceSelector: spelledOtherwise } }),
    );
    expect(entry({ match: { ...match, objectSelector: {}, apiVersions: ['*', 'v1'] } })).toBe(entry({}));
  });

  test.each<[string, Partial<AdmissionPolicySpec>]>([
    ['failurePolicy', { failurePolicy: 'Ignore' }],
    ['timeoutSeconds', { timeoutSeconds: 6 }],
    ['namespaceSelector', { match: { ...match, namespaceSelector: selector } }],
    ['objectSelector', { match: { ...match, objectSelector: selector } }],
    ['matchConditions', { match: { ...match, matchConditions: [{ name: 'a', expression: 'true' }] } }],
    ['apiVersions, where the API server would choose one', { match: { ...match, apiVersions: ['v1'] } }],
  ])('differs with %s', (_what, spec) => {
    expect(entry(spec)).not.toEqual(entry({}));
  });
});

const withMatch = (change: Partial<AdmissionPolicySpec['match']>): Partial<AdmissionPolicySpec> => ({
  match: { ...match, ...change },
});
const withDefault = (path: string, value: unknown = 'x'): Partial<AdmissionPolicySpec> => ({
  defaults: [{ path, value }],
});
const computed = (path: string, expression: string): Partial<AdmissionPolicySpec> => ({
  defaults: [{ path, expression }],
});
const withReference = (change: object): Partial<AdmissionPolicySpec> => ({
  validate: { references: [{ ...datacenter, ...change }] },
});
const immutable = (path: string): Partial<AdmissionPolicySpec> => ({ validate: { immutable: [path] } });
const REFERENCE = 'spec.validate.references[0]';
const OPERATIONS = 'spec.match.operations';
const EVERYONE = [{ group: 'system:authenticated' }];
const namespaceNames = (operator: 'In' | 'NotIn', ...values: readonly string[]) =>
  withMatch({
    namespaceSelector: { matchExpressions: [{ key: 'kubernetes.io/metadata.name', operator, values }] },
  });

test.each<[string, Partial<AdmissionPolicySpec>, string]>([
  ['InvalidPath', withDefault('spec..tier'), 'spec.defaults[0].path'],
  ['InvalidPath', withDefault('kind'), 'spec.defaults[0].path'],
  ['InvalidPath', withDefault('metadata.name'), 'spec.defaults[0].path'],
  ['InvalidPath', withDefault('status.phase'), 'spec.defaults[0].path'],
  ['InvalidPath', withDefault('spec.list[*]'), 'spec.defaults[0].path'],
  ['InvalidPolicy', withDefault('metadata.labels.a', 'not a label'), 'spec.defaults[0]'],
  ['InvalidPolicy', withDefault('metadata.annotations.a', 1), 'spec.defaults[0]'],
  ['InvalidPolicy', computed('metadata.labels["a b"]', '"x"'), 'spec.defaults[0]'],
  ['InvalidExpression', computed('metadata.labels.a', '1'), 'spec.defaults[0].expression'],
  ['InvalidPolicy', withDefault('spec.a', null), 'spec.defaults[0].value'],
  ['InvalidPolicy', withDefault('spec.a', [{ b: 2 ** 60 }]), 'spec.defaults[0].value'],
  ['InvalidPolicy', { ...withDefault('spec.a'), ...withMatch({ operations: ['DELETE'] }) }, OPERATIONS],
  ['InvalidPolicy', { initiallyDeferred: { principals: EVERYONE } }, 'spec.initiallyDeferred.principals[0]'],
  ['InvalidPath', immutable('spec.disks[*].class'), 'spec.validate.immutable[0]'],
  ['InvalidPath', immutable('metadata.resourceVersion'), 'spec.validate.immutable[0]'],
  ['InvalidPolicy', { ...immutable('spec.a'), ...withMatch({ operations: ['CREATE'] }) }, OPERATIONS],
  ['InvalidPath', withReference({ path: 'spec[' }), `${REFERENCE}.path`],
  ['UnknownTarget', withReference({ target: { apiGroup: group, resource: 'x' } }), `${REFERENCE}.target`],
  ['InvalidPolicy', withReference({ namespacePath: 'spec.ns' }), `${REFERENCE}.namespacePath`],
  ['InvalidPath', withReference({ ...rack, namespacePath: 'spec.b[*].ns' }), `${REFERENCE}.namespacePath`],
  [
    'InvalidPolicy',
    { ...withReference(rack), ...withMatch({ resources: ['rooms'] }) },
    `${REFERENCE}.namespacePath`,
  ],
  ['Unsupported', { ...withReference({}), ...withMatch({ resources: ['*'] }) }, 'spec.match.resources'],
  ['InvalidPolicy', withMatch({ apiGroups: ['Infra'] }), 'spec.match.apiGroups'],
  ['InvalidPolicy', withMatch({ resources: ['Servers'] }), 'spec.match.resources'],
  [
    'InvalidPolicy',
    withMatch({ objectSelector: { matchExpressions: [{ key: 'a', operator: 'In' }] } }),
    'spec.match.objectSelector.matchExpressions[0]',
  ],
  ['LockoutScope', withMatch({ apiGroups: ['*'] }), 'spec.match.apiGroups'],
  ['LockoutScope', namespaceNames('In', 'a', 'gatehouse-system'), 'spec.match.namespaceSelector'],
])('%s: %j is rejected', (reason, spec, where) => {
  expect(compile(spec)).toMatchObject({ kind: 'rejected', reason, problems: [{ where }] });
});

test.each([
  ['gatehouse.dev', 'servers', 'Fail'],
  ['admissionregistration.k8s.io', 'servers', 'Fail'],
  ['coordination.k8s.io', 'leases', 'Ignore'],
  ['coordination.k8s.io', '*', 'Fail'],
  ['', 'nodes', 'Fail'],
  ['', '*/status', 'Fail'],
  ['', 'nodes/*', 'Fail'],
  ['certificates.k8s.io', '*/*', 'Fail'],
  ['authentication.k8s.io', 'tokenreviews', 'Ignore'],
  ['authorization.k8s.io', '*', 'Ignore'],
] as const)(
  'group "%s", resource %s, failurePolicy %s: could stop the cluster',
  (apiGroup, resource, failurePolicy) => {
    const spec = { ...withMatch({ apiGroups: [apiGroup], resources: [resource] }), failurePolicy };
    expect(compile(spec)).toMatchObject({
      reason: 'LockoutScope',
      problems: [{ where: 'spec.match.resources' }],
    });
  },
);

test.each<[string, Partial<AdmissionPolicySpec>]>([
  [
    'nodes with failurePolicy Ignore',
    { ...withMatch({ apiGroups: [''], resources: ['nodes'] }), failurePolicy: 'Ignore' },
  ],
  ['all resources of a group of one’s own', withMatch({ resources: ['*'] })],
  ["a selector that excludes Gatehouse's namespace", namespaceNames('NotIn', 'gatehouse-system')],
  [
    'a default in a status through its subresource',
    { ...withMatch({ resources: ['servers/status'] }), ...withDefault('status.phase') },
  ],
  ['a namespace path for each name', withReference({ ...rack, namespacePath: 'spec.racks[*].namespace' })],
])('%s can be governed', (_what, spec) => {
  expect(compile(spec)).toMatchObject({ kind: 'compiled' });
});

test('all problems are reported together, with the most severe reason', () => {
  const result = compile({
    ...withMatch({ apiGroups: ['*'] }),
    ...withDefault('kind'),
    ...withReference({ target: { apiGroup: '', resource: 'x' } }),
  });
  expect(result).toMatchObject({ kind: 'rejected', reason: 'LockoutScope' });
  expect(result.kind === 'rejected' && result.problems).toHaveLength(3);
});

describe('match conditions that the API server would reject, and all webhooks with them', () => {
  const conditions = (...matchConditions: readonly { name: string; expression: string }[]) =>
    compile(withMatch({ matchConditions: [...matchConditions] }));

  test.each([
    ["request.operaton == 'CREATE'", 'field operaton not found in request: did you mean operation?'],
    ['object.spec.enabled', 'yields a value whose type is not known'],
    ["authorizer.group('').check('get').allowed()", 'check does not take (string)'],
  ])('%s', (expression, message) => {
    expect(conditions({ name: 'a', expression })).toMatchObject({
      kind: 'rejected',
      reason: 'InvalidExpression',
      problems: [
        {
          where: 'spec.match.matchConditions[0].expression',
          message: expect.stringContaining(message) as string,
        },
      ],
    });
  });

  test.each([
    "request.userInfo.username.startsWith('system:') && request.userInfo.extra['a'].exists(x, x == 'b')",
    'object.metadata.name == oldObject.metadata.name || !request.dryRun || has(request.options.kind)',
    "authorizer.group('apps').resource('deployments').namespace('a').name('b').check('get').allowed()",
    "authorizer.serviceAccount('a', 'b').path('/healthz').check('get').reason() == ''",
    "authorizer.requestResource.subresource('x').labelSelector('a=b').check('custom').errored()",
  ])('accepts %s', (expression) => {
    expect(conditions({ name: 'a', expression })).toMatchObject({ kind: 'compiled' });
  });

  test.each(['restorer', 'not-restorer'])('named %s, as a condition of Gatehouse', (name) => {
    expect(conditions({ name, expression: 'true' })).toMatchObject({
      problems: [
        {
          where: 'spec.match.matchConditions[0].name',
          message: expect.stringContaining('reserved') as string,
        },
      ],
    });
  });

  test('longer than 16 KiB in total, because few of them would fill both configurations', () => {
    const ofSizes = (...sizes: readonly number[]) =>
      conditions(
        ...sizes.map((bytes, index) => ({
          name: `con${index}`,
          expression: `'é' != '${'x'.repeat(bytes - 14)}'`,
        })),
      );
    expect(ofSizes(16_384)).toMatchObject({ kind: 'compiled' });
    expect(ofSizes(8_000, 8_385)).toMatchObject({
      problems: [
        { where: 'spec.match.matchConditions', message: expect.stringContaining('16385 bytes') as string },
      ],
    });
  });

  test('more than 63, because Gatehouse adds one to the 64 that the API server allows', () => {
    const many = (count: number) =>
      conditions(...Array.from({ length: count }, (_, index) => ({ name: `c${index}`, expression: 'true' })));
    expect(many(63)).toMatchObject({ kind: 'compiled' });
    expect(many(64)).toMatchObject({
      problems: [
        { where: 'spec.match.matchConditions', message: expect.stringContaining('at most 63') as string },
      ],
    });
  });
});

test.each(['Restrict', 'Cascade'] as const)(
  'a policy with %s names the kinds themselves, not only their subresources: otherwise nothing blocks a deletion',
  (onTargetDelete) => {
    const references = [{ ...datacenter, path: 'status.datacenter', onTargetDelete }];
    const problemsWith = (resources: readonly string[], of = references) => {
      const result = compile({
        match: { ...match, resources: [...resources] },
        validate: { references: of },
      });
      return result.kind === 'compiled' ? [] : result.problems.map(({ message }) => message);
    };
    expect(problemsWith(['servers/status'])).toEqual([
      'has servers/status without servers, and Gatehouse has to know which objects name a target: add servers',
    ]);
    expect(problemsWith(['servers', 'servers/status'])).toEqual([]);
    expect(
      problemsWith(['servers/status'], [{ ...references[0], onTargetDelete: 'Allow' }] as never),
    ).toEqual([]);
  },
);

test('a match condition that the API server would answer otherwise is refused, unless it is in force already', () => {
  const conditions = [{ name: 'code', expression: "object.data.code.lastIndexOf('a', 3) == 0" }];
  const spec = { match: { ...match, matchConditions: conditions } };
  expect(compile(spec, { server: 36, schemas: [] })).toMatchObject({
    kind: 'rejected',
    problems: [
      { message: expect.stringMatching(/answers lastIndexOf .* only from Kubernetes 1\.37/) as string },
    ],
  });
  // A server of 0 hides its version.
  for (const change of [
    { server: 37, schemas: [] },
    { server: 0, schemas: [] },
    { schemas: [] },
    { server: 36 },
  ])
    expect(compile(spec, change).kind).toBe('compiled');
});
