import { expect, test } from 'vitest';

import type { JsonObject } from '../../../json/json.ts';
import {
  CRDS,
  definition,
  GROUP,
  NAMESPACES,
  object,
  policy,
  REFERENCE,
  rehearsed,
  shop,
} from '../../../../test/support/rehearsed-shops.ts';

const namespace = (name: string, labels: JsonObject = {}): JsonObject => ({
  apiVersion: 'v1',
  kind: 'Namespace',
  metadata: { name, labels },
});

/** The same CRD with its only version renamed. */
const inVersion = (crd: JsonObject, name: string): JsonObject =>
  JSON.parse(JSON.stringify(crd).replaceAll('"v1"', JSON.stringify(name))) as JsonObject;

test('Velero does not replace the CRD of the target with the one of the backup', async () => {
  const old = inVersion(definition('Shop', 'Namespaced'), 'v1beta1');
  const apiVersion = 'apiextensions.k8s.io/v1';
  const backup = [
    { ...old, apiVersion },
    { ...shop('a'), apiVersion: `${GROUP}/v1beta1` },
  ];
  const { lines, restored } = await rehearsed({ backup });
  expect(restored).toEqual([]);
  expect(lines).toContain(
    'problem NotServed shops.shop.example.com east/a: Shop is not served in shop.example.com/v1beta1, only in shop.example.com/v1',
  );
  const updated = await rehearsed({ backup, flags: { existingResourcePolicy: 'update' } });
  expect(updated.restored).toEqual(['a']);
});

test('an object is lost if the target serves its kind with another scope', async () => {
  const { lines, restored } = await rehearsed({
    backup: [shop('a'), object('Zone', 'red')],
    existing: [definition('Shop', 'Cluster'), definition('Zone', 'Namespaced')],
  });
  expect(restored).toEqual([]);
  expect(lines).toEqual([
    'problem NotServed shops.shop.example.com east/a: Shop is cluster-scoped in the target, but the object has a namespace',
    'problem NotServed zones.shop.example.com red: Zone is namespaced in the target, but the object lacks a namespace',
  ]);
});

test('of two objects that are mapped to one name, the second is lost, and the violations of the first remain', async () => {
  const { lines } = await rehearsed({
    backup: [shop('a', { zone: 'red' }), shop('a', { zone: 'blue' }, { namespace: 'west' })],
    own: [policy({ validate: REFERENCE })],
    flags: { namespaceMappings: ['east:copy', 'west:copy'] },
  });
  const problems = lines.filter((line) => line.startsWith('problem'));
  expect(problems).toEqual([
    'problem Refused shops.shop.example.com copy/a: another object of the backup has this name after the mapping of namespaces: one of the two is lost',
    expect.stringMatching(
      /^problem TargetMissing shops.shop.example.com copy\/a: spec.zone: zones.*red does not exist/,
    ),
  ]);
});

test('violations of a Namespace are reported with its new name', async () => {
  const target = { apiGroup: GROUP, resource: 'zones' };
  const zone = { name: 'zone', path: 'metadata.labels.zone', target };
  const teams = policy({ match: NAMESPACES, validate: { references: [zone] } });
  const { lines } = await rehearsed({
    backup: [namespace('east', { zone: 'red' })],
    own: [teams],
    flags: { namespaceMappings: ['east:copy'] },
  });
  expect(lines).toContainEqual(
    expect.stringMatching(
      /^problem TargetMissing namespaces copy: metadata.labels.zone: zones.*red does not exist/,
    ),
  );
});

test('a Namespace has the labels of the backup even if it is not selected', async () => {
  const scoped = policy({
    match: {
      apiGroups: [GROUP],
      apiVersions: ['v1'],
      resources: ['shops'],
      namespaceSelector: { matchLabels: { strict: 'yes' } },
    },
    validate: { rules: [{ expression: 'false', message: 'no' }] },
  });
  const { lines } = await rehearsed({
    backup: [namespace('east', { strict: 'yes' }), shop('a')],
    own: [scoped],
    existing: CRDS,
    flags: { includeResources: ['shop'] },
  });
  expect(lines).toEqual(['problem Refused shops.shop.example.com east/a: no (policy shops)']);
});

test('a kind that the target does not serve has the plural of the backup', async () => {
  const mouse = { apiVersion: `${GROUP}/v1`, kind: 'Mouse', metadata: { namespace: 'east', name: 'm' } };
  const read = [{ object: mouse, resource: { group: GROUP, resource: 'mice' }, place: { file: 'm.json' } }];
  const { lines } = await rehearsed({ read, existing: CRDS, flags: { includeResources: [`mice.${GROUP}`] } });
  expect(lines).toEqual([expect.stringMatching(/^problem NotServed mice.shop.example.com east\/m: /)]);
});

const core = (kind: string, name: string, more: JsonObject = {}, metadata: JsonObject = {}): JsonObject => ({
  apiVersion: 'v1',
  kind,
  metadata: { ...(kind === 'PersistentVolume' ? {} : { namespace: 'east' }), name, ...metadata },
  ...more,
});
const EAST = namespace('east');

test('Velero adds to an existing ServiceAccount what it lacks, with any policy', async () => {
  const account = (name: string, ...keys: readonly string[]) =>
    core('ServiceAccount', name, { imagePullSecrets: keys.map((key) => ({ name: key })) });
  const { results } = await rehearsed({
    backup: [
      account('a', 'key'),
      account('b', 'key'),
      core('ServiceAccount', 'c', {}, { labels: { a: 'b' } }),
    ],
    existing: [EAST, account('a', 'other'), account('b', 'key', 'other'), account('c')],
  });
  expect(results).toEqual([
    'updated serviceaccounts east/a',
    'exists serviceaccounts east/b',
    'updated serviceaccounts east/c',
  ]);
});

test.each([
  ['none', 'different services east/a', 'exists configmaps east/a'],
  ['update', 'updated services east/a', 'labelled configmaps east/a'],
] as const)('with the policy %s, an existing Service always differs', async (policyOf, service, config) => {
  const same = [core('Service', 'a', { spec: { clusterIP: 'None' } }), core('ConfigMap', 'a')];
  const { results } = await rehearsed({
    backup: same,
    existing: [EAST, ...same],
    flags: { existingResourcePolicy: policyOf },
  });
  expect(results).toEqual([config, service]);
});

test('a volume that is provisioned again is omitted, and its claim is unbound', async () => {
  const { results, lines } = await rehearsed({
    backup: [
      core('PersistentVolume', 'v', { spec: { persistentVolumeReclaimPolicy: 'Delete' } }),
      core('PersistentVolumeClaim', 'c', { spec: { volumeName: 'v' } }),
    ],
    own: [
      policy({
        match: { apiGroups: [''], apiVersions: ['v1'], resources: ['persistentvolumeclaims'] },
        validate: { rules: [{ expression: '!has(object.spec.volumeName)', message: 'bound' }] },
      }),
    ],
  });
  expect(results).toEqual(['omitted persistentvolumes v', 'restored persistentvolumeclaims east/c']);
  expect(lines).toEqual([]);
});

test('an older violation of an object that Velero only labels is not reported', async () => {
  const same = (name: string, ...managers: readonly string[]) =>
    shop(name, { zone: 'red' }, { managedFields: managers.map((manager) => ({ manager })) });
  const { results, lines } = await rehearsed({
    backup: [same('a'), same('b', 'kubectl')],
    existing: [...CRDS, EAST, same('a'), same('b')],
    own: [policy({ validate: REFERENCE })],
    flags: { existingResourcePolicy: 'update' },
  });
  expect(results).toEqual([
    'labelled shops.shop.example.com east/a',
    'updated shops.shop.example.com east/b',
  ]);
  expect(lines).toEqual([]);
});

test('an object whose update is refused is kept', async () => {
  const { results, lines } = await rehearsed({
    backup: [shop('a', { slug: 'backup' })],
    existing: [...CRDS, EAST, shop('a', { slug: 'now' })],
    own: [policy({ validate: { immutable: ['spec.slug'] } })],
    flags: { existingResourcePolicy: 'update' },
  });
  expect(results).toEqual(['kept shops.shop.example.com east/a']);
  expect(lines).toEqual([expect.stringMatching(/^problem Refused shops.shop.example.com east\/a: /)]);
});
