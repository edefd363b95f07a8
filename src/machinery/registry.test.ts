import { expect, test } from 'vitest';

import { definition, established, NOW, VERSION } from '../../test/support/sandbox/crd.ts';
import { ofJson, type ApiObject } from './api-object.ts';
import { CLEANUP_FINALIZER, DEFINITIONS } from './crd/definition.ts';
import { planDefinitionStatus } from './crd/status.ts';
import { createRegistry } from './registry.ts';
import { compareVersions, plainStrategy, type ResourceType } from './resource-type.ts';
import { createStorage } from './storage/storage.ts';

const builtIn = (group: string, version: string, resource: string, kind: string): ResourceType => ({
  group,
  version,
  resource,
  singular: kind.toLowerCase(),
  kind,
  listKind: `${kind}List`,
  shortNames: [],
  categories: [],
  namespaced: true,
  verbs: ['get'],
  schema: {},
  custom: false,
  columns: [],
  hasStatus: false,
  storageVersion: version,
  selectableFields: {},
  strategy: plainStrategy,
});

const PODS = builtIn('', 'v1', 'pods', 'Pod');
const CONFIG_MAPS = builtIn('', 'v1', 'configmaps', 'ConfigMap');
const DEPLOYMENTS = builtIn('apps', 'v1', 'deployments', 'Deployment');

test('built-in kinds are found by resource and by kind', () => {
  const registry = createRegistry([PODS, DEPLOYMENTS], createStorage());
  expect(registry.find('', 'v1', 'pods')).toBe(PODS);
  expect(registry.findKind('apps/v1', 'Deployment')).toBe(DEPLOYMENTS);
  expect(registry.stored('apps', 'deployments')).toBe(DEPLOYMENTS);
  expect(registry.find('apps', 'v1', 'pods')).toBeUndefined();
});

test('only the type of the storage version is the stored one', () => {
  const autoscalers = (version: string) => ({
    ...builtIn('autoscaling', version, 'horizontalpodautoscalers', 'HorizontalPodAutoscaler'),
    storageVersion: 'v2',
  });
  const registry = createRegistry([autoscalers('v1'), autoscalers('v2')], createStorage());
  expect(registry.stored('autoscaling', 'horizontalpodautoscalers')?.version).toBe('v2');
});

test('a definition is served from the write that establishes it until the write that removes it', () => {
  const storage = createStorage();
  const registry = createRegistry([PODS], storage);
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

test('types are listed core group first, then built-in groups, then others, each with its preferred version first', () => {
  const storage = createStorage();
  storage.create(DEFINITIONS, established({ group: 'zoo.example.com' }));
  storage.create(
    DEFINITIONS,
    established({
      group: 'aaa.example.com',
      versions: [VERSION, { ...VERSION, name: 'v2', storage: false }],
    }),
  );
  const registry = createRegistry([DEPLOYMENTS, PODS, CONFIG_MAPS], storage);
  expect(registry.all().map(({ group, version, resource }) => [group, version, resource].join('/'))).toEqual([
    '/v1/configmaps',
    '/v1/pods',
    'apps/v1/deployments',
    'aaa.example.com/v2/servers',
    'aaa.example.com/v1/servers',
    'zoo.example.com/v1/servers',
  ]);
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
  const storage = createStorage();
  const versions = [
    { ...VERSION, name: 'v2', storage: false },
    { ...VERSION, served: false },
  ];
  storage.create(DEFINITIONS, established({ versions }));
  const registry = createRegistry([], storage);
  expect(registry.all().map(({ version }) => version)).toEqual(['v2']);
  expect(registry.stored('infra.example.com', 'servers')?.version).toBe('v1');
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
