import { expect, test } from 'vitest';
import type { JsonObject } from '../../json/json.ts';
import { parseGroupResource } from './backup.ts';
import { createSelection, restoreOrder, selectItems, type SelectionOptions } from './selection.ts';

const item = (kind: string, namespace: string | undefined, object: JsonObject = {}) => ({
  resource: parseGroupResource(kind),
  namespace,
  name: 'x',
  object,
});
const server = item('servers.example.com', 'shop', { metadata: { labels: { app: 'db' } } });
const zone = item('zones.example.com', undefined);
const none: SelectionOptions = {};

const only = { includeNamespaces: ['shop'] };
const pod = (object: JsonObject) => item('pods', 'shop', object);
const mirror = pod({ metadata: { annotations: { 'kubernetes.io/config.mirror': 'x' } } });
const job = item('jobs.batch', 'shop', { status: { completionTime: 'now' } });
const namespace = item('namespaces', undefined);
const labelled = (app: string) => ({ selectors: [{ matchLabels: { app: 'x' } }, { matchLabels: { app } }] });

test.each<[string, ReturnType<typeof item>, SelectionOptions, string?]>([
  ['everything', server, none],
  ['cluster-scoped objects', zone, none],
  ['an included namespace', server, only],
  ['all namespaces', zone, { includeNamespaces: ['*'] }],
  ['cluster-scoped objects on request', zone, { ...only, includeClusterResources: true }],
  ['namespaces by a pattern', server, { includeNamespaces: ['lo*', 's?op'] }],
  ['a resource by a pattern', server, { includeResources: ['*.example.com'] }],
  ['a resource by its full name', server, { includeResources: ['servers.example.com'] }],
  ['matching labels', server, labelled('db')],
  ['all Namespaces on request', namespace, { ...only, includeClusterResources: true }],
  ['no Namespace with some namespaces', namespace, only, 'cluster-scoped'],
  ['no Namespace without the labels', namespace, labelled('db'), 'labels do not match'],
  ['no other namespace', server, { includeNamespaces: ['a'] }, 'namespace is excluded'],
  ['no excluded namespace', server, { excludeNamespaces: ['shop'] }, 'namespace is excluded'],
  ['no cluster-scoped object with some namespaces', zone, only, 'cluster-scoped'],
  ['no cluster-scoped object without a namespace', zone, { excludeNamespaces: ['a'] }, 'cluster-scoped'],
  ['no cluster-scoped object on request', zone, { includeClusterResources: false }, 'cluster-scoped'],
  ['no excluded resource', server, { excludeResources: ['servers.*'] }, 'resource is excluded'],
  [
    'no namespace of an excluded pattern',
    server,
    { includeNamespaces: ['shop'], excludeNamespaces: ['s*'] },
    'namespace is excluded',
  ],
  ['no cluster-scoped object with a pattern', zone, { includeNamespaces: ['s*'] }, 'cluster-scoped'],
  [
    'no resource whose name only starts the same',
    server,
    { includeResources: ['servers'] },
    'resource is excluded',
  ],
  ['no other resource', server, { includeResources: ['zones'] }, 'resource is excluded'],
  ['no other labels', server, labelled('web'), 'labels do not match'],
  ['no Node', item('nodes', undefined), none, 'never restored'],
  ['no finished Pod', pod({ status: { phase: 'Succeeded' } }), none, 'already completed'],
  ['no finished Job', job, none, 'already completed'],
  ['no mirror Pod', mirror, none, 'mirror pod'],
])('Velero restores %s', (_what, object, options, reason) => {
  expect(createSelection(options)(object)).toBe(reason);
});

test('Velero adds the claims and the class of Pods, and the volumes of bound claims', () => {
  const all = [
    pod({
      metadata: { labels: { app: 'db' } },
      spec: { priorityClassName: 'x', volumes: [{ persistentVolumeClaim: { claimName: 'x' } }] },
    }),
    item('priorityclasses.scheduling.k8s.io', undefined),
    item('persistentvolumeclaims', 'shop', { spec: { volumeName: 'x' }, status: { phase: 'Bound' } }),
    item('persistentvolumes', undefined),
    server,
  ];
  const kindsOf = (options: SelectionOptions) =>
    selectItems(all, options).items.map(({ resource }) => resource.resource);
  const [pods, classes, claims, volumes, servers] = all.map(({ resource }) => resource.resource);
  expect(kindsOf(only)).toEqual([pods, claims, servers, classes, volumes]);
  expect(kindsOf({ ...only, includeClusterResources: false })).toEqual([pods, claims, servers]);
  expect(kindsOf({ ...labelled('db'), excludeResources: ['servers.*'] })).toEqual([
    pods,
    classes,
    claims,
    volumes,
  ]);
});

const ordered = (text: string) => {
  const [kind = '', ...key] = text.split(' ');
  const [name = '', namespace] = (key[0] ?? '').split('/').toReversed();
  return { text, resource: parseGroupResource(kind), namespace, name };
};

test('Velero restores what others need first, then by the alphabet regardless of scope', () => {
  const expected = [
    'customresourcedefinitions.apiextensions.k8s.io zones.example.com',
    'namespaces shop',
    'serviceaccounts shop/db',
    'secrets a/z',
    'secrets b/a',
    'configmaps shop/db',
    'pods shop/db',
    'services shop/db',
    'datacenters.example.com fra1',
    'servers.example.com shop/a',
    'servers.example.com shop/b',
    'services.example.com shop/b',
    'zones.example.com red',
    'clusters.cluster.x-k8s.io shop/a',
  ];
  expect(restoreOrder(expected.toReversed().map(ordered)).map(({ text }) => text)).toEqual(expected);
});
