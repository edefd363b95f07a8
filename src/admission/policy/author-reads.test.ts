import { expect, test } from 'vitest';

import { admissionPolicySchema, type AdmissionPolicySpec } from '../../api/admission-policy.ts';
import { parseJson } from '../../json/json.ts';
import { describeRead, disclosingText, forbiddenReadMessage, readsOf } from './author-reads.ts';

const match = { apiGroups: ['infra.example.com'], resources: ['servers', 'servers/status'] };
const reads = (spec: Partial<AdmissionPolicySpec>) => readsOf({ match, ...spec }).map(describeRead);
const reference = (resource: string) => ({
  name: resource,
  path: 'spec.a',
  target: { apiGroup: '', resource },
});

test.each<[string, Partial<AdmissionPolicySpec>, readonly string[]]>([
  [
    'params in a namespace',
    { params: { apiGroup: '', resource: 'secrets', name: 'db', namespace: 'vault' } },
    ['get secrets "db" in namespace "vault"'],
  ],
  [
    'references, each kind once',
    {
      validate: {
        references: [reference('secrets'), reference('nodes'), { ...reference('secrets'), name: 'b' }],
      },
    },
    [
      'get secrets in all namespaces',
      'get nodes in all namespaces',
      'list servers.infra.example.com in all namespaces',
    ],
  ],
  [
    'the Namespace of the object, in any expression',
    { variables: [{ name: 'a', expression: 'namespaceObject.metadata.labels' }] },
    ['get namespaces in all namespaces'],
  ],
  ...(
    [
      ['rules', { validate: { rules: [{ expression: 'true' }] } }],
      ['a schema', { validate: { schema: {} } }],
      ['unique values', { validate: { unique: [{ name: 'a', paths: ['spec.a'] }] } }],
      ['defaults', { defaults: [{ path: 'spec.a', value: 1 }] }],
      ['owners', { owners: { preserve: true } }],
      ['uids', { restore: { uids: ['spec.uid'] } }],
    ] as const
  ).map(([what, spec]): [string, Partial<AdmissionPolicySpec>, readonly string[]] => [
    `the governed objects, for ${what}`,
    spec,
    ['list servers.infra.example.com in all namespaces'],
  ]),
  [
    'no wildcards and subresources: audits and sweeps skip them',
    {
      match: { ...match, resources: ['*', '*/scale', 'pods/exec'] },
      validate: { rules: [{ expression: 'true' }] },
    },
    [],
  ],
])('reads %s', (_what, spec, expected) => {
  expect(reads(spec)).toEqual(expected);
});

const base: AdmissionPolicySpec = { match, mutations: [{ name: 'a', expression: '{}' }], validate: {} };

test.each<[string, Partial<AdmissionPolicySpec>]>([
  ['params', { params: { apiGroup: '', resource: 'secrets', name: 'db' } }],
  ['an expression', { mutations: [{ name: 'a', expression: '{"a": 1}' }] }],
  ['the match', { match: { ...match, resources: ['servers'] } }],
  ['the audit', { audit: false }],
  ['what a restore defers', { restore: {} }],
])('a change of %s changes the text that the record covers', (_what, change) => {
  expect(disclosingText({ ...base, ...change })).not.toBe(disclosingText(base));
});

test('the order of keys, exact integers and fields that disclose nothing do not change the text', () => {
  const { match: first, ...others } = base;
  expect(disclosingText({ ...others, match: first })).toBe(disclosingText(base));
  const weak = { enforcement: 'Audit', exceptions: [], failurePolicy: 'Ignore', timeoutSeconds: 9 } as const;
  expect(disclosingText({ ...base, ...weak })).toBe(disclosingText(base));
  const [exact, rounded] = ['12345678901234567890', '12345678901234567000'].map((text) =>
    disclosingText({ ...base, defaults: [{ path: 'a', value: parseJson(text) }] }),
  );
  expect(exact).toBe(rounded);
});

test('no new default in the schema changes the text: it would void the record of every policy', () => {
  const found: string[] = [];
  const walk = (schema: unknown, path: string): void => {
    if (typeof schema !== 'object' || schema === null) return;
    const { default: value, properties = {}, items } = schema as Record<string, unknown>;
    if (value !== undefined) found.push(path);
    for (const [key, inner] of Object.entries(properties as object)) walk(inner, `${path}.${key}`);
    walk(items, `${path}[]`);
  };
  walk(
    (admissionPolicySchema as { readonly properties?: { readonly spec?: unknown } }).properties?.spec,
    'spec',
  );
  expect(found.filter((path) => !/\.(failurePolicy|timeoutSeconds|enforcement)$/.test(path))).toEqual([
    'spec.match.apiVersions',
    'spec.match.operations',
    'spec.audit',
    'spec.params.whenMissing',
    'spec.owners.preserve',
    'spec.restore.references',
    'spec.restore.unique',
    'spec.restore.schema',
    'spec.restore.rules',
    'spec.restore.immutable',
    'spec.restore.mutations',
    'spec.initiallyDeferred.grace',
  ]);
});

test.each([
  ['Cascade', 'delete'],
  ['SetNull', 'patch'],
  ['SetDefault', 'patch'],
] as const)('%s needs the permission to %s the governed objects', (onTargetDelete, verb) => {
  const references = [{ ...reference('datacenters'), onTargetDelete }];
  expect(reads({ validate: { references } })).toContain(
    `${verb} servers.infra.example.com in all namespaces`,
  );
  const [, , action] = readsOf({ match, validate: { references } });
  expect(action?.field).toBe('spec.validate.references[0].onTargetDelete');
  expect(action && forbiddenReadMessage(action)).toContain(`verbs: [${verb}]`);
});
