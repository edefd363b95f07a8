import { expect, test } from 'vitest';

import { ofJson } from '../api-object.ts';
import { CLEANUP_FINALIZER } from './definition.ts';
import { definition, established, NOW, VERSION } from '../../../test/support/sandbox/crd.ts';
import { planDefinitionStatus } from './status.ts';
import { storedTypeOf, typesOf } from './types-of.ts';

const firstType = (crd = established()) => {
  const [type] = typesOf(crd);
  if (type === undefined) throw new Error('the definition serves no version');
  return type;
};

test('an established definition is served under its names and with its schema', () => {
  expect(firstType()).toMatchObject({
    group: 'infra.example.com',
    version: 'v1',
    resource: 'servers',
    singular: 'server',
    kind: 'Server',
    listKind: 'ServerList',
    shortNames: ['srv'],
    categories: [],
    namespaced: true,
    custom: true,
    hasStatus: false,
    storageVersion: 'v1',
    schema: { type: 'object' },
  });
});

test('a definition is not served before its names are accepted', () => {
  expect(typesOf(definition())).toEqual([]);
  expect(storedTypeOf(definition())).toBeUndefined();
});

test('the same definition object yields the same types, so compiled schemas can be cached', () => {
  const crd = established();
  expect(typesOf(crd)).toBe(typesOf(crd));
});

test('versions that are not served are left out, and the preferred version comes first', () => {
  const crd = established({
    versions: [
      { ...VERSION, name: 'v1alpha1', storage: false, served: false },
      { ...VERSION, name: 'v1beta1', storage: false },
      { ...VERSION, storage: true },
    ],
  });
  expect(typesOf(crd).map(({ version }) => version)).toEqual(['v1', 'v1beta1']);
  expect(typesOf(crd).map(({ storageVersion }) => storageVersion)).toEqual(['v1', 'v1']);
});

test('the stored type is known even if its version is not served', () => {
  const crd = established({
    versions: [
      { ...VERSION, name: 'v2', storage: false },
      { ...VERSION, served: false },
    ],
  });
  expect(typesOf(crd).map(({ version }) => version)).toEqual(['v2']);
  expect(storedTypeOf(crd)?.version).toBe('v1');
});

test('a version without columns shows the age', () => {
  expect(firstType().columns).toMatchObject([
    { name: 'Age', type: 'date', value: '.metadata.creationTimestamp' },
  ]);
});

test('columns are copied unchanged', () => {
  const column = {
    name: 'Color',
    type: 'string',
    jsonPath: '.spec.color',
    priority: 1,
    description: 'its color',
  };
  const { columns } = firstType(
    established({ versions: [{ ...VERSION, additionalPrinterColumns: [column] }] }),
  );
  expect(columns).toEqual([
    { name: 'Color', type: 'string', value: '.spec.color', priority: 1, description: 'its color' },
  ]);
});

test('subresources are copied', () => {
  const scale = { specReplicasPath: '.spec.replicas', statusReplicasPath: '.status.replicas' };
  const type = firstType(established({ versions: [{ ...VERSION, subresources: { status: {}, scale } }] }));
  expect(type).toMatchObject({ hasStatus: true, scale });
});

test('selectable fields read only strings, numbers and booleans', () => {
  const { selectableFields } = firstType(
    established({ versions: [{ ...VERSION, selectableFields: [{ jsonPath: '.spec.color' }] }] }),
  );
  const read = (spec: object) => {
    const object = ofJson({
      apiVersion: 'infra.example.com/v1',
      kind: 'Server',
      metadata: {},
      spec: { ...spec },
    });
    return selectableFields['spec.color']?.(object);
  };
  expect(read({ color: 'blue' })).toBe('blue');
  expect(read({ color: 3 })).toBe('3');
  expect(read({ color: false })).toBe('false');
  expect(read({})).toBe('');
  expect(read({ color: {} })).toBe('');
});

test('a deprecated version recommends the best served version above it', () => {
  const crd = established({
    versions: [
      { ...VERSION, name: 'v1alpha1', storage: false, deprecated: true },
      { ...VERSION, name: 'v1beta1', storage: false },
      VERSION,
    ],
  });
  expect(typesOf(crd).map(({ deprecationWarning }) => deprecationWarning)).toEqual([
    undefined,
    undefined,
    'infra.example.com/v1alpha1 Server is deprecated; use infra.example.com/v1 Server',
  ]);
});

test.each([
  ['its own warning', { deprecated: true, deprecationWarning: 'use something else' }, 'use something else'],
  ['no better version', { deprecated: true }, 'infra.example.com/v1 Server is deprecated'],
])('a deprecated version with %s has a warning', (_what, version, warning) => {
  expect(firstType(established({ versions: [{ ...VERSION, ...version }] })).deprecationWarning).toBe(warning);
});

test('objects cannot be created while the definition is being deleted', () => {
  const crd = established();
  const metadata = { ...crd.metadata, deletionTimestamp: NOW, finalizers: [CLEANUP_FINALIZER] };
  const { verbs, isTerminating } = firstType(planDefinitionStatus({ ...crd, metadata }, [], NOW));
  expect(isTerminating).toBe(true);
  expect(verbs).toEqual(['delete', 'deletecollection', 'get', 'list', 'watch']);
});
