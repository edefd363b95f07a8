import { describe, expect, test } from 'vitest';
import type { JsonObject } from '../../json/json.ts';
import { parseGroupResource } from './backup.ts';
import { createSelection, restoreOrder, type SelectionOptions } from './selection.ts';

const item = (kind: string, namespace: string | undefined, object: JsonObject = {}) => ({
  ...{ resource: parseGroupResource(kind), namespace, name: 'x', object },
});
const server = item('servers.example.com', 'shop', { metadata: { labels: { app: 'db' } } });
const zone = item('zones.example.com', undefined);
const none: SelectionOptions = {};

describe('Velero', () => {
  test.each([
    ['everything', server, none, undefined],
    ['cluster-scoped objects', zone, none, undefined],
    ['an included namespace', server, { includeNamespaces: ['shop'] }, undefined],
    ['all namespaces', zone, { includeNamespaces: ['*'] }, undefined],
    [
      'cluster-scoped objects on request',
      zone,
      { includeNamespaces: ['shop'], includeClusterResources: true },
      undefined,
    ],
    ['a resource by its short name', server, { includeResources: ['servers'] }, undefined],
    ['a resource by its full name', server, { includeResources: ['servers.example.com'] }, undefined],
    ['matching labels', server, { selector: { matchLabels: { app: 'db' } } }, undefined],
  ])('restores %s', (_what, object, options: SelectionOptions, reason) => {
    expect(createSelection(options)(object)).toBe(reason);
  });
  test.each([
    ['another namespace', server, { includeNamespaces: ['a'] }, 'namespace is excluded'],
    ['an excluded namespace', server, { excludeNamespaces: ['shop'] }, 'namespace is excluded'],
    [
      'cluster-scoped objects of a restore of namespaces',
      zone,
      { includeNamespaces: ['shop'] },
      'cluster-scoped',
    ],
    [
      'cluster-scoped objects if a namespace is excluded',
      zone,
      { excludeNamespaces: ['a'] },
      'cluster-scoped',
    ],
    ['cluster-scoped objects on request', zone, { includeClusterResources: false }, 'cluster-scoped'],
    ['an excluded resource', server, { excludeResources: ['servers'] }, 'resource is excluded'],
    ['other resources', server, { includeResources: ['zones'] }, 'resource is excluded'],
    ['other labels', server, { selector: { matchLabels: { app: 'web' } } }, 'labels do not match'],
    ['Nodes', item('nodes', undefined), none, 'never restored'],
    ['finished Pods', item('pods', 'shop', { status: { phase: 'Succeeded' } }), none, 'already completed'],
    [
      'finished Jobs',
      item('jobs.batch', 'shop', { status: { completionTime: 'now' } }),
      none,
      'already completed',
    ],
    [
      'mirror Pods',
      item('pods', 'shop', { metadata: { annotations: { 'kubernetes.io/config.mirror': 'x' } } }),
      none,
      'mirror pod',
    ],
  ])('skips %s', (_what, object, options: SelectionOptions, reason) => {
    expect(createSelection(options)(object)).toBe(reason);
  });
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
