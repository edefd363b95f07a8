import { expect, test } from 'vitest';

import { established, NOW, VERSION } from '../../test/support/sandbox/crd.ts';
import { ofJson, type ApiObject } from './api-object.ts';
import { CLEANUP_FINALIZER, DEFINITIONS } from './crd/definition.ts';
import { planDefinitionStatus } from './crd/status.ts';
import { createRegistry } from './registry.ts';
import { compareVersions, type ResourceType } from './resource-type.ts';
import { createStorage } from './storage/storage.ts';

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
