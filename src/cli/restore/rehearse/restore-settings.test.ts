import { expect, test } from 'vitest';
import { stringify } from 'yaml';
import type { JsonObject, JsonValue } from '../../../json/json.ts';
import {
  CRDS,
  definition,
  object,
  policy,
  REFERENCE,
  rehearsed,
  shop,
} from '../../../../test/support/rehearsed-shops.ts';

const restore = (spec: JsonObject): JsonObject => ({
  apiVersion: 'velero.io/v1',
  kind: 'Restore',
  metadata: { namespace: 'velero', name: 'nightly' },
  spec: { backupName: 'nightly', ...spec },
});
const MODIFIER = { resourceModifier: { kind: 'ConfigMap', name: 'changes' } };
const modifiers = (...rules: readonly JsonValue[]): JsonObject => ({
  apiVersion: 'v1',
  kind: 'ConfigMap',
  metadata: { namespace: 'velero', name: 'changes' },
  data: { rules: stringify({ version: 'v1', resourceModifierRules: rules }) },
});
const SHOPS = { groupResource: 'shops.shop.example.com' };
const backup = [shop('a', { zone: 'red' }, { labels: { part: 'x' } }), object('Zone', 'red'), shop('b')];
const run = (spec: JsonObject, ...configMaps: readonly JsonObject[]) =>
  rehearsed({ backup, restore: [restore(spec), ...configMaps] });

test.each<[what: string, spec: JsonObject, restored: readonly string[]]>([
  ['nothing', {}, ['a', 'b', 'red']],
  ['null', { includedNamespaces: null, labelSelector: null }, ['a', 'b', 'red']],
  ['namespaces by a class', { includedNamespaces: ['[a-e]ast'] }, ['a', 'b']],
  ['resources by a short form', { includedResources: ['Shop'] }, ['a', 'b']],
  ['labels', { labelSelector: { matchLabels: { part: 'x' } } }, ['a']],
  [
    'one of several selectors',
    { orLabelSelectors: [{ matchLabels: { part: 'x' } }, { matchLabels: { part: 'y' } }] },
    ['a'],
  ],
  ['no cluster-scoped resources', { includeClusterResources: false }, ['a', 'b']],
])('a Restore selects by %s', async (_what, spec, restored) => {
  expect((await run(spec)).restored).toEqual(restored);
});

test.each<[what: string, spec: JsonObject, problem: string]>([
  ['nodes', { includedResources: ['nodes'] }, 'spec.includedResources: Velero never restores nodes'],
  ['* and names', { includedNamespaces: ['*', 'a'] }, 'spec.includedNamespaces: write * alone'],
  ['excluded *', { excludedResources: ['*'] }, 'spec.excludedResources: must not contain *'],
  [
    'an overlap',
    { includedNamespaces: ['a'], excludedNamespaces: ['a'] },
    'spec.excludedNamespaces: a is also included',
  ],
  [
    'both kinds of selectors',
    { labelSelector: {}, orLabelSelectors: [] },
    'spec.orLabelSelectors: not together with labelSelector',
  ],
  ['a backup and a schedule', { scheduleName: 'daily' }, 'spec.backupName: write either'],
  ['neither', { backupName: '' }, 'spec.backupName: write either'],
  [
    'another policy',
    { existingResourcePolicy: 'recreate' },
    'spec.existingResourcePolicy: Unsupported value',
  ],
  ['a wrong type', { uploaderConfig: { parallelFilesDownload: 'x' } }, 'spec.uploaderConfig.parallelFiles'],
  ['a wrong mapping', { namespaceMapping: { a: 1 } }, 'spec.namespaceMapping.a'],
  [
    'an init container without an image',
    {
      hooks: { resources: [{ postHooks: [{ init: { initContainers: [{ name: 'a', command: ['b'] }] } }] }] },
    },
    'initContainers[0].image: Required value',
  ],
  ['a missing ConfigMap', MODIFIER, 'spec.resourceModifier: ConfigMap velero/changes not found'],
])('Velero would refuse a Restore with %s', async (_what, spec, problem) => {
  const found = run(spec);
  await expect(found).rejects.toThrow('test: Velero would refuse this Restore (FailedValidation): ');
  await expect(found).rejects.toThrow(problem);
});

test('Velero would refuse a Restore with an invalid ConfigMap', async () => {
  await expect(run(MODIFIER, modifiers())).rejects.toThrow(
    'spec.resourceModifier: ConfigMap velero/changes: resourceModifierRules',
  );
});

test('a rehearsal needs one Restore, and no flags that select', async () => {
  const two = [restore({}), restore({})];
  await expect(rehearsed({ backup, restore: two })).rejects.toThrow('exactly one Restore');
  const flags = { includeNamespaces: ['east'] };
  await expect(rehearsed({ backup, flags, restore: [restore({})] })).rejects.toThrow('not together with');
});

test('the problems of flags name the flags', async () => {
  const flags = { includeNamespaces: ['a'], excludeNamespaces: ['a'] };
  await expect(rehearsed({ backup, flags })).rejects.toThrow(/^--exclude-namespaces: a is also included/);
  const both = { selector: 'part=x', orSelector: 'part=x or part=y' };
  await expect(rehearsed({ backup, flags: both })).rejects.toThrow(/^--or-selector: not together with/);
  await expect(rehearsed({ backup, flags: { orSelector: 'a<1' } })).rejects.toThrow('--or-selector a<1: ');
});

test('--or-selector means spec.orLabelSelectors', async () => {
  const flags = { orSelector: 'part=x or part=y' };
  expect((await rehearsed({ backup, flags })).restored).toEqual(['a']);
});

test.each([{ flags: { preserveNodeports: true } }, { restore: [restore({ preserveNodePorts: true })] }])(
  'node ports are kept with %j',
  async (wanted) => {
    const service = {
      apiVersion: 'v1',
      kind: 'Service',
      metadata: { namespace: 'east', name: 'web' },
      spec: { type: 'NodePort', ports: [{ port: 80, nodePort: 30_080 }] },
    };
    const none = policy({
      match: { apiGroups: [''], apiVersions: ['v1'], resources: ['services'] },
      validate: { rules: [{ expression: '!has(object.spec.ports[0].nodePort)', message: 'a node port' }] },
    });
    const resultsOf = async (how: object) =>
      (await rehearsed({ backup: [service], own: [none], ...how })).results;
    expect(await resultsOf({})).toEqual(['restored services east/web']);
    expect(await resultsOf(wanted)).toEqual(['refused services east/web']);
  },
);

test('fields without a meaning for a rehearsal are notes', async () => {
  const other = { resourceModifier: { kind: 'Secret', name: 'changes' } };
  const { notes } = await run({ hooks: {}, restoreStatus: {}, newer: true, uploaderConfig: {}, ...other });
  expect(notes.filter((note) => note.startsWith('spec.'))).toEqual([
    'spec.hooks of the Restore: the rehearsal ignores it',
    'spec.newer of the Restore: the rehearsal ignores it',
    'spec.restoreStatus of the Restore: the rehearsal ignores it',
    'spec.resourceModifier: Velero ignores it: its kind is Secret, not ConfigMap',
  ]);
});

test('modifiers apply before the namespace is mapped and before admission; a failing one is a problem', async () => {
  const zone = (value: string) => ({ patches: [{ operation: 'add', path: '/spec/zone', value }] });
  const rules = [
    { conditions: { ...SHOPS, namespaces: ['east'], resourceNameRegex: '^a$' }, ...zone('blue') },
    { conditions: { ...SHOPS, namespaces: ['west'] }, ...zone('lost') },
    {
      conditions: { ...SHOPS, resourceNameRegex: '^b$' },
      patches: [{ operation: 'remove', path: '/spec/x' }],
    },
  ];
  const spec = { ...MODIFIER, namespaceMapping: { east: 'west' } };
  const { lines, restored } = await rehearsed({
    backup,
    restore: [restore(spec), modifiers(...rules)],
    own: [policy({ validate: REFERENCE })],
  });
  expect(restored).toEqual(['a', 'b', 'red']);
  expect(lines).toEqual([
    'problem NotModified shops.shop.example.com west/b: a resource modifier fails: resourceModifierRules[2]: remove /spec/x: not found in the object',
    expect.stringMatching(
      /^problem TargetMissing shops.shop.example.com west\/a: spec.zone: zones.shop.example.com blue/,
    ),
    expect.stringMatching(/^note Deferred shops.shop.example.com west\/a/),
  ]);
});

test('modifiers can rename an object, and change CRDs', async () => {
  const rename = { patches: [{ operation: 'replace', path: '/metadata/name', value: 'a' }] };
  const rules = [
    { conditions: { ...SHOPS, resourceNameRegex: '^b$' }, ...rename },
    {
      conditions: {
        groupResource: 'customresourcedefinitions.apiextensions.k8s.io',
        resourceNameRegex: '^z',
      },
      patches: [{ operation: 'replace', path: '/spec/scope', value: 'Namespaced' }],
    },
  ];
  const { lines } = await rehearsed({
    backup: [...CRDS, definition('Other', 'Cluster'), ...backup],
    existing: [],
    restore: [restore(MODIFIER), modifiers(...rules)],
  });
  expect(lines).toEqual([
    expect.stringMatching(/^problem Refused shops.shop.example.com east\/a: another object of the backup/),
    'problem NotServed zones.shop.example.com red: Zone is namespaced in the target, but the object lacks a namespace',
  ]);
});

const POLICY = { resourcePolicy: { kind: 'configmap', name: 'changes' } };
const filters = (policy: JsonObject): JsonObject => ({
  ...modifiers(),
  data: { policy: stringify({ version: 'v1', ...policy }) },
});
const east = (...resourceFilters: readonly JsonValue[]): JsonObject => ({
  namespaces: ['east'],
  resourceFilters,
});
const X = { matchLabels: { part: 'x' } };

test.each<[what: string, policy: JsonObject, restored: readonly string[], spec?: JsonObject]>([
  ['nothing', {}, ['a', 'b', 'red']],
  [
    'names of a plural',
    { namespacedFilterPolicies: [east({ kinds: ['shops'], names: ['a*'] })] },
    ['a', 'red'],
  ],
  ['a kind', { namespacedFilterPolicies: [east({ kinds: ['Shop'], excludedNames: ['a'] })] }, ['b', 'red']],
  ['another kind', { namespacedFilterPolicies: [east({ kinds: ['pods'] })] }, ['red']],
  ['labels of all kinds', { namespacedFilterPolicies: [east({ labelSelector: X })] }, ['a', 'red']],
  [
    'labels instead of those of the Restore',
    { namespacedFilterPolicies: [east({ kinds: ['*'], orLabelSelectors: [X, {}] })] },
    ['a'],
    { labelSelector: { matchLabels: { part: 'y' } } },
  ],
  [
    'the namespace before a glob',
    {
      namespacedFilterPolicies: [
        { namespaces: ['e*'], resourceFilters: [{ kinds: ['shops'], names: ['a'] }] },
        east({ kinds: ['shops'], names: ['b'] }),
      ],
    },
    ['b', 'red'],
  ],
  [
    'cluster-scoped kinds',
    { clusterScopedFilterPolicy: { resourceFilters: [{ kinds: ['zones'], names: ['blue'] }] } },
    ['a', 'b'],
  ],
  [
    'other cluster-scoped kinds',
    { clusterScopedFilterPolicy: { resourceFilters: [{ kinds: ['nodes'], names: ['blue'] }] } },
    ['a', 'b', 'red'],
  ],
])('a resource policy selects by %s', async (_what, policy, restored, spec = {}) => {
  expect((await run({ ...spec, ...POLICY }, filters(policy))).restored).toEqual(restored);
});

test.each<[what: string, policy: JsonObject, problem: string]>([
  ['another version', { version: 'v2' }, 'version: Unsupported value'],
  ['volumes', { volumePolicies: [] }, 'volumePolicies: unknown field'],
  ['no filter', { namespacedFilterPolicies: [east()] }, 'namespacedFilterPolicies[0].resourceFilters'],
  [
    'a namespace twice',
    { namespacedFilterPolicies: [east({ kinds: ['pods'] }), east({ kinds: ['shops'] })] },
    '"east" occurs twice',
  ],
  [
    'braces',
    { namespacedFilterPolicies: [{ namespaces: ['{a,b}'], resourceFilters: [{}] }] },
    'the namespace "{a,b}" is no glob',
  ],
  ['a kind twice', { namespacedFilterPolicies: [east({ kinds: ['shops', 'Shop'] })] }, 'is for shops.shop'],
  ['names of all kinds', { namespacedFilterPolicies: [east({ names: ['a'] })] }, 'cannot have names'],
  ['all kinds twice', { namespacedFilterPolicies: [east({}, { kinds: ['*'] })] }, 'for all kinds, too'],
  [
    'all cluster-scoped kinds',
    { clusterScopedFilterPolicy: { resourceFilters: [{ labelSelector: X }] } },
    'each filter needs kinds',
  ],
  [
    'both kinds of selectors',
    { namespacedFilterPolicies: [east({ labelSelector: X, orLabelSelectors: [X] })] },
    'write either labelSelector or orLabelSelectors',
  ],
  [
    'an invalid glob',
    { namespacedFilterPolicies: [east({ kinds: ['shops'], names: ['['] })] },
    'is not a glob',
  ],
])('Velero would refuse a resource policy with %s', async (_what, policy, problem) => {
  const found = run(POLICY, filters(policy));
  await expect(found).rejects.toThrow('spec.resourcePolicy: ConfigMap velero/changes');
  await expect(found).rejects.toThrow(problem);
});

test('a resource policy is in a ConfigMap', async () => {
  await expect(run(POLICY)).rejects.toThrow('spec.resourcePolicy: ConfigMap velero/changes not found');
  const secret = { resourcePolicy: { kind: 'Secret', name: 'changes' } };
  await expect(run(secret)).rejects.toThrow('spec.resourcePolicy.kind: Secret is not ConfigMap');
});
