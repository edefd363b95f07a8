import { expect, test } from 'vitest';

import { definition, established, NOW, VERSION } from '../../test/support/sandbox/crd.ts';
import { DEFINITIONS } from './crd/definition.ts';
import { planDefinitionStatus } from './crd/status.ts';
import { createRegistry } from './registry.ts';
import { plainStrategy, type ResourceType } from './resource-type.ts';
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

test('definitions that are already in the storage are served', () => {
  const storage = createStorage();
  storage.create(DEFINITIONS, established());
  expect(createRegistry([], storage).find('infra.example.com', 'v1', 'servers')?.kind).toBe('Server');
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
