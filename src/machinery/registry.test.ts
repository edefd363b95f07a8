import { expect, test } from 'vitest';

import { definition, established, NOW, VERSION } from '../../test/support/sandbox/crd.ts';
import { ofJson, type ApiObject } from './api-object.ts';
import { CLEANUP_FINALIZER, DEFINITIONS } from './crd/definition.ts';
import { planDefinitionStatus } from './crd/status.ts';
import { createRegistry } from './registry.ts';
import { compareVersions, type ResourceType } from './resource-type.ts';
import { createStorage } from './storage/storage.ts';

test('a definition is served from the write that establishes it until the write that removes it', () => {
  const storage = createStorage();
  const registry = createRegistry([], storage);
  const find = () => registry.find('infra.example.com', 'v1', 'servers')?.kind;

  const created = storage.create(DEFINITIONS, definition());
  expect(find()).toBeUndefined();

  const planned = planDefinitionStatus(created, [], NOW);
  const served = storage.replace(DEFINITIONS, planned, created.metadata.resourceVersion ?? '');
  expect(find()).toBe('Server');
  expect(registry.findKind('infra.example.com/v1', 'Server')?.resource).toBe('servers');
  expect(registry.stored('infra.example.com', 'servers')?.version).toBe('v1');

  const key = { namespace: '', name: 'servers.infra.example.com' };
  storage.remove(DEFINITIONS, key, served.metadata.resourceVersion ?? '');
  expect(find()).toBeUndefined();
});

/** The types that a definition serves. */
function typesOf(crd: ApiObject): readonly ResourceType[] {
  const storage = createStorage();
  storage.create(DEFINITIONS, crd);
  return createRegistry([], storage).all();
}

const firstType = (crd = established()) => {
  const [type] = typesOf(crd);
  if (type === undefined) throw new Error('the definition serves no version');
  return type;
};

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

test('objects cannot be created while the definition is being deleted', () => {
  const crd = established();
  const metadata = { ...crd.metadata, deletionTimestamp: NOW, finalizers: [CLEANUP_FINALIZER] };
  const { verbs, isTerminating } = firstType(planDefinitionStatus({ ...crd, metadata }, [], NOW));
  expect(isTerminating).toBe(true);
  expect(verbs).toEqual(['delete', 'deletecollection', 'get', 'list', 'watch']);
});

test('GA comes before beta before alpha, higher numbers come first, and other names last', () => {
  const names = [
    'foo10',
    'v12alpha1',
    'v3beta1',
    'v1',
    'foo1',
    'v10',
    'v11alpha2',
    'v1beta2',
    'v1beta1',
    'v2',
  ];
  expect(names.toSorted(compareVersions)).toEqual([
    ...['v10', 'v2', 'v1'],
    ...['v3beta1', 'v1beta2', 'v1beta1', 'v12alpha1', 'v11alpha2'],
    ...['foo1', 'foo10'],
  ]);
  expect(compareVersions('v1beta1', 'v1beta1')).toBe(0);
});
