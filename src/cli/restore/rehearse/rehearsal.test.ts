import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { parse } from 'yaml';

import type { RestoreDetector } from '../../../api/restore-detector.ts';
import { objectIn, type JsonObject } from '../../../json/json.ts';
import {
  CRDS,
  detectorOf,
  GROUP,
  NAMESPACES,
  object,
  policy,
  REFERENCE,
  rehearsed,
  shop,
} from '../../../../test/support/rehearsed-shops.ts';
import { problem } from './findings.ts';
import { shippedDetector, windowOf } from './rehearsal.ts';

const REFERRING = policy({ validate: REFERENCE });
const rule = (expression: string, message = 'no') =>
  policy({ validate: { rules: [{ expression, message }] } });
const linesOf = async (...[scene]: Parameters<typeof rehearsed>) => (await rehearsed(scene)).lines;

test('a CRD of the backup serves its objects; a reference to a later object is deferred', async () => {
  const { lines, restored } = await rehearsed({
    backup: [...CRDS, shop('a', { zone: 'red' }), object('Zone', 'red')],
    own: [REFERRING],
    existing: [],
  });
  expect(restored).toEqual(['a', 'red']);
  expect(lines).toEqual([
    'note Deferred shops.shop.example.com east/a: passes only while checks are deferred: shops/zone=zones.shop.example.com/red',
  ]);
});

test('without a detector in the input, the shipped one is used', () => {
  const file = join(import.meta.dirname, '../../../../deploy/detectors/velero/detector.yaml');
  const shipped = parse(readFileSync(file, 'utf8')) as RestoreDetector;
  const detector = { ...shipped, spec: { ...shipped.spec, namespaces: ['velero'] } };
  const windows = [detector, shippedDetector('velero')].map((one) =>
    windowOf([one], 'velero', { east: 'copy' }, new Date(0)),
  );
  expect(windows[0]).toBeDefined();
  expect(windows[1]).toEqual(windows[0]);
});

test('without a window, Velero loses an object that comes before its target', async () => {
  const { lines, restored } = await rehearsed({
    backup: [shop('a', { zone: 'red' }), object('Zone', 'red')],
    own: [REFERRING],
    flags: { window: false },
  });
  expect(restored).toEqual(['red']);
  expect(lines).toEqual([
    expect.stringMatching(/^problem Refused shops.shop.example.com east\/a: spec.zone: Zone "red" not found/),
  ]);
});

test('objects of Gatehouse that Velero writes are refused, one finding each', async () => {
  const label = { 'velero.io/exclude-from-backup': 'true' };
  const other = { ...REFERRING, metadata: { name: 'other' } };
  const excluded = { ...REFERRING, metadata: { name: 'excluded', labels: label } };
  const scene = { backup: [REFERRING, other, excluded], own: [REFERRING] };
  const refused = (name: string) =>
    `problem Refused admissionpolicies.gatehouse.dev ${name}: a restorer may not write objects of gatehouse.dev`;
  const found = async (flags: object) =>
    (await linesOf({ ...scene, flags })).map((line) => line.replace(/: restores leave.*/, ''));
  expect(await found({})).toEqual([refused('other')]);
  expect(await found({ existingResourcePolicy: 'update' })).toEqual([refused('shops'), refused('other')]);
  expect(await found({ window: false })).toEqual([]);
});

test('a target that the backup lacks is reported, with what to do about cluster-scoped kinds', async () => {
  const [line] = await linesOf({ backup: [shop('a', { zone: 'red' })], own: [REFERRING] });
  expect(line).toBe(
    'problem TargetMissing shops.shop.example.com east/a: spec.zone: zones.shop.example.com red does not exist after the restore (policy shops); the backup has no zones.shop.example.com: include cluster-scoped resources in the backup',
  );
});

test('a target that the restore leaves out is reported with the reason', async () => {
  const backup = [shop('a', { zone: 'red' }), object('Zone', 'red')];
  const [line] = await linesOf({ backup, own: [REFERRING], flags: { includeNamespaces: ['east'] } });
  expect(line).toMatch(/; the backup contains it, but the restore leaves it out: cluster-scoped$/);
});

test('a namespace that is being deleted in the target loses its objects', async () => {
  const metadata = { name: 'east', deletionTimestamp: '2026-11-27T11:00:00Z' };
  const existing = [...CRDS, { apiVersion: 'v1', kind: 'Namespace', metadata }];
  expect(await linesOf({ backup: [shop('a')], existing })).toEqual([
    'problem Refused shops.shop.example.com east/a: the namespace east is being deleted in the target: Velero waits 10 minutes, then omits its objects; restore after the deletion',
  ]);
});

test('conversion webhooks and APIs whose Service is missing are reported, those of Gatehouse are not', async () => {
  const service = { namespace: 'ops', name: 'gone' };
  const labels = { 'app.kubernetes.io/managed-by': 'gatehouse' };
  const webhook = { name: 'own.gatehouse.dev', clientConfig: { service } };
  const webhooks = { apiVersion: 'admissionregistration.k8s.io/v1', kind: 'ValidatingWebhookConfiguration' };
  const api = {
    apiVersion: 'apiregistration.k8s.io/v1',
    kind: 'APIService',
    metadata: { name: 'v1.a.example.com' },
  };
  const withService = JSON.parse(
    JSON.stringify(converted).replace(
      '"url":"https://conversion.example.com/"',
      `"service":${JSON.stringify(service)}`,
    ),
  ) as JsonObject;
  const scene = {
    backup: [shop('a')],
    existing: [
      ...[withService, zones, { ...api, spec: { service } }],
      { ...webhooks, metadata: { name: 'own', labels }, webhooks: [webhook] },
    ],
  };
  const missing = 'the Service ops/gone is not restored, so';
  const ofApi = `problem WebhookUnreachable apiservices.apiregistration.k8s.io v1.a.example.com: ${missing} requests`;
  const ofCrd = `problem WebhookUnreachable customresourcedefinitions.apiextensions.k8s.io shops.shop.example.com: ${missing} its objects`;
  const starts = (await linesOf(scene)).map((line) => line.replace(/(requests|objects) .*/, '$1'));
  expect(starts).toEqual([ofCrd, ofApi]);
  expect(await linesOf({ ...scene, own: [conversion] })).toEqual([expect.stringContaining(ofApi)]);
});

test('a rule that is not deferred refuses; the second write, with managedFields, counts too', async () => {
  const backup = [shop('a', { size: 9 })];
  expect(await linesOf({ backup, own: [rule('object.spec.size < 5')] })).toEqual([
    'problem Refused shops.shop.example.com east/a: no (policy shops)',
  ]);
  expect(await linesOf({ backup, own: [rule('request.operation == "CREATE"')] })).toEqual([
    'problem Incomplete shops.shop.example.com east/a: its managedFields are not restored: no (policy shops)',
  ]);
});

test('duplicates are reported, even of existing objects', async () => {
  const unique = policy({ validate: { unique: [{ name: 'slug', paths: ['spec.slug'], scope: 'Cluster' }] } });
  const { lines } = await rehearsed({
    backup: [shop('a', { slug: 'x' }), shop('b', { slug: 'y' })],
    own: [unique],
    existing: [...CRDS, shop('c', { slug: 'x' }, { namespace: 'west' })],
  });
  expect(lines.filter((line) => line.startsWith('problem'))).toEqual([
    'problem Duplicate shops.shop.example.com east/a: spec.slug: also held by west/c, but only one object may hold it: change or delete the others (policy shops)',
  ]);
});

test('kinds and versions that the target does not serve are reported', async () => {
  const old = { ...shop('a'), apiVersion: `${GROUP}/v1beta1` };
  const cart = { ...object('Cart', 'c'), metadata: { name: 'c' } };
  const removed = { apiVersion: 'policy/v1beta1', kind: 'PodSecurityPolicy', metadata: { name: 'p' } };
  expect(await linesOf({ backup: [old, cart, removed] })).toEqual([
    'problem NotServed carts.shop.example.com c: shop.example.com/v1 Cart is not served: its CustomResourceDefinition is missing',
    'problem NotServed podsecuritypolicies.policy p: policy/v1beta1 PodSecurityPolicy is not served: Kubernetes does not have this kind any more, or not yet',
    'problem NotServed shops.shop.example.com east/a: Shop is not served in shop.example.com/v1beta1, only in shop.example.com/v1',
  ]);
});

test('the version of the target decides, and one that is too old is refused', async () => {
  const range = { apiVersion: 'networking.k8s.io/v1', kind: 'ServiceCIDR', metadata: { name: 'more' } };
  const into = (targetVersion: string) => rehearsed({ backup: [range], flags: { targetVersion } });
  expect((await into('1.33')).lines).toEqual([]);
  expect((await into('v1.32.1')).lines).toEqual([
    'problem NotServed servicecidrs.networking.k8s.io more: Kubernetes 1.32 does not serve networking.k8s.io/v1 ServiceCIDR: back it up in a version that both serve',
  ]);
  await expect(into('1.29')).rejects.toThrow(
    '--target-version 1.29: Gatehouse supports Kubernetes 1.30 and newer',
  );
});

test('an existing object is kept, or updated with --existing-resource-policy=update', async () => {
  const scene = {
    backup: [shop('a', { size: 2 }), shop('b', { size: 1 })],
    existing: [...CRDS, shop('a', { size: 1 }), shop('b', { size: 1 })],
    own: [policy({ validate: { immutable: ['spec.size'] } })],
  };
  expect(await linesOf(scene)).toEqual([
    'note Exists shops.shop.example.com east/a: a different object with this name exists, and Velero keeps it',
  ]);
  expect(await linesOf({ ...scene, flags: { existingResourcePolicy: 'update' } })).toEqual([
    expect.stringMatching(
      /^problem Refused shops.shop.example.com east\/a: spec.size: was set and cannot be changed to 2/,
    ),
  ]);
});

test('a copy that references an object in the namespace of the original is reported', async () => {
  const target = { apiGroup: GROUP, resource: 'shops' };
  const peer = { name: 'peer', path: 'spec.peer.name', namespacePath: 'spec.peer.namespace', target };
  const { lines } = await rehearsed({
    backup: [shop('a', { peer: { namespace: 'east', name: 'b' } })],
    own: [policy({ validate: { references: [peer] } })],
    existing: [...CRDS, shop('b')],
    flags: { namespaceMappings: ['east:copy'] },
  });
  expect(lines).toEqual([
    'problem CrossesNamespaceMapping shops.shop.example.com copy/a: spec.peer.name: still references shops.shop.example.com east/b, not the copy (policy shops)',
  ]);
});

test('owners that no policy has recorded are lost', async () => {
  const ownerReferences = [{ apiVersion: `${GROUP}/v1`, kind: 'Shop', name: 'b', uid: 'u' }];
  expect(await linesOf({ backup: [shop('a', {}, { ownerReferences }), shop('b')] })).toEqual([
    'note OwnerNotRecorded shops.shop.example.com east/a: its owners are lost (Shop "b"): no policy with preserveOwners recorded them before the backup',
  ]);
});

test('a webhook of others whose Service is missing refuses writes', async () => {
  const webhook = (service: string, more: JsonObject = {}) => ({
    apiVersion: 'admissionregistration.k8s.io/v1',
    kind: 'ValidatingWebhookConfiguration',
    metadata: { name: service },
    webhooks: [
      {
        name: 'check.example.com',
        admissionReviewVersions: ['v1'],
        sideEffects: 'None',
        clientConfig: { service: { namespace: 'ops', name: service, path: '/' } },
        ...more,
      },
    ],
  });
  const { lines } = await rehearsed({
    backup: [
      webhook('gone'),
      webhook('optional', { failurePolicy: 'Ignore' }),
      webhook('there'),
      {
        apiVersion: 'v1',
        kind: 'Service',
        metadata: { namespace: 'ops', name: 'there' },
        spec: { ports: [{ port: 443 }] },
      },
    ],
  });
  expect(lines).toEqual([
    expect.stringMatching(
      /^problem WebhookUnreachable gone check.example.com: the Service ops\/gone is not restored/,
    ),
    expect.stringMatching(
      /^note WebhookUnreachable there check.example.com: while the Pods of the Service ops\/there/,
    ),
  ]);
});

test('Namespaces are created first, without labels of Velero, and admission sees them', async () => {
  const expression = 'has(object.metadata.labels) && "team" in object.metadata.labels';
  const namespaces = policy({ match: NAMESPACES, validate: { rules: [{ expression }] } });
  const { lines, restored } = await rehearsed({ backup: [shop('a')], own: [namespaces] });
  expect(restored).toEqual([]);
  expect(lines).toEqual([
    expect.stringMatching(/^problem Refused shops.shop.example.com east\/a: its Namespace is refused: /),
  ]);
});

/** A CRD with two versions. The policy governs the one that the backup does not have. */
const [shops = {}, zones = {}] = CRDS;
const schema = { openAPIV3Schema: { type: 'object', 'x-kubernetes-preserve-unknown-fields': true } };
const converted: JsonObject = {
  ...shops,
  spec: {
    ...objectIn(shops, 'spec'),
    versions: ['v1', 'v2'].map((name) => ({ name, served: true, storage: name === 'v1', schema })),
    conversion: {
      strategy: 'Webhook',
      webhook: { conversionReviewVersions: ['v1'], clientConfig: { url: 'https://conversion.example.com/' } },
    },
  },
};
const ofV2 = policy({
  match: { apiGroups: [GROUP], apiVersions: ['v2'], resources: ['shops'] },
  validate: { rules: [{ expression: 'object.spec.area < 5', message: 'too large' }] },
});
const conversion: JsonObject = {
  apiVersion: 'gatehouse.dev/v1alpha1',
  kind: 'ConversionPolicy',
  metadata: { name: 'shops' },
  spec: {
    target: { apiGroup: GROUP, resource: 'shops' },
    hub: 'v2',
    versions: [{ name: 'v1', toHub: [{ move: { from: 'spec.size', to: 'spec.area' } }] }],
  },
};

test('a ConversionPolicy converts objects to the version that a policy governs', async () => {
  const backup = [shop('a', { size: 9 }), shop('b', { size: 3 })];
  const scene = { backup, existing: [converted, zones] };
  const { lines, notes } = await rehearsed({ ...scene, own: [ofV2, conversion] });
  expect(lines).toEqual(['problem Refused shops.shop.example.com east/a: too large (policy shops)']);
  expect(notes).not.toContainEqual(expect.stringContaining('conversion webhook'));
});

test('without it, all versions are assumed to have the same fields, and a note reports it', async () => {
  const backup = [shop('a', { area: 9 }), shop('b', { area: 3 })];
  const { lines, notes } = await rehearsed({ backup, existing: [converted, zones], own: [ofV2] });
  expect(lines).toEqual(['problem Refused shops.shop.example.com east/a: too large (policy shops)']);
  expect(notes).toContain(
    'shops.shop.example.com: its conversion webhook is not called: all versions are assumed to have the same fields',
  );
});

test('a ConversionPolicy for a kind that is not restored is left out', async () => {
  const scene = { backup: [object('Zone', 'red')], existing: [zones], own: [conversion] };
  const { restored } = await rehearsed(scene);
  expect(restored).toEqual(['red']);
});

describe('workloads that may act on half a cluster', () => {
  const RBAC = 'rbac.authorization.k8s.io';
  const DEPLOYMENTS = { apiGroup: 'apps', resource: 'deployments' };
  const operator = (name: string, labels: JsonObject): JsonObject => ({
    apiVersion: 'apps/v1',
    kind: 'Deployment',
    metadata: { namespace: 'east', name, labels },
    spec: { template: { spec: { serviceAccountName: name } } },
  });
  const role = (name: string, ...verbs: readonly string[]): JsonObject => ({
    apiVersion: `${RBAC}/v1`,
    kind: 'ClusterRole',
    metadata: { name },
    rules: [{ apiGroups: [GROUP], resources: ['shops'], verbs }],
  });
  const binding = (name: string, bound: string): JsonObject => ({
    apiVersion: `${RBAC}/v1`,
    kind: 'ClusterRoleBinding',
    metadata: { name },
    roleRef: { apiGroup: RBAC, kind: 'ClusterRole', name: bound },
    subjects: [{ kind: 'ServiceAccount', namespace: 'east', name }],
  });
  const backup = [
    ...[shop('a'), role('writes', 'get', 'create'), role('reads', 'list')],
    ...[operator('maker', { app: 'maker' }), binding('maker', 'writes')],
    ...[operator('reader', {}), binding('reader', 'reads'), operator('unbound', {})],
  ];
  const pausing = (namespace: string): JsonObject =>
    detectorOf({ quiesce: [{ ...DEPLOYMENTS, matchLabels: { app: 'maker' }, namespaces: [namespace] }] });
  const writersOf = async (own: readonly JsonObject[], flags: object = {}) => {
    const { lines } = await rehearsed({ backup, own: [REFERRING, ...own], flags });
    return lines.filter((line) => line.startsWith('note NotPaused'));
  };

  test('are named, unless the detector pauses them where Velero restores them', async () => {
    const named = [
      'note NotPaused deployments.apps east/maker: its account can create or delete shops.shop.example.com while other objects are still missing: add it to spec.quiesce of the RestoreDetector',
    ];
    expect(await writersOf([])).toEqual(named);
    expect(await writersOf([pausing('west')])).toEqual(named);
    expect(await writersOf([pausing('east')])).toEqual([]);
    expect(await writersOf([pausing('west')], { namespaceMappings: ['east:west'] })).toEqual([]);
  });

  test('are read from forged objects without an error', async () => {
    const forged: readonly JsonObject[] = [
      { ...operator('f', {}), metadata: { namespace: 'east', name: 'f', labels: 'none' } },
      { ...binding('f', 'writes'), subjects: 'all' },
      { ...role('odd'), rules: [{ verbs: 'create' }, 'all'] },
    ];
    const lines = await linesOf({ backup: [...backup, ...forged], own: [REFERRING] });
    expect(lines.filter((line) => line.startsWith('note NotPaused'))).toHaveLength(1);
  });
});

test('policies and detectors that are not ready in the cluster are reported', async () => {
  const having = (type: string, found: JsonObject): JsonObject => {
    const condition = { type, status: 'False', reason: 'Odd', message: 'odd' };
    return {
      ...found,
      status: { conditions: [{ ...condition, lastTransitionTime: '2026-11-27T11:00:00Z' }] },
    };
  };
  const { notes } = await rehearsed({
    backup: [shop('a')],
    own: [having('Ready', REFERRING), having('Watching', detectorOf())],
  });
  expect(notes).toEqual([
    'AdmissionPolicy shops is not ready: kubectl describe admissionpolicy shops',
    'RestoreDetector velero does not watch what it names, so it opens no window: kubectl describe restoredetector velero',
  ]);
});

test.each<[string, object]>([
  ['namespaces esat: not found in the backup', { includeNamespaces: ['esat'] }],
  ['resources mice: not found in the backup', { includeResources: ['mice'] }],
  ['1 object left out: labels do not match', { selector: 'app=shpo' }],
  ['1 object left out: resource is excluded', { excludeResources: ['Shop'] }],
])('a rehearsal that selects nothing is an error: %s', async (message, flags) => {
  await expect(rehearsed({ backup: [shop('a')], flags })).rejects.toThrow(message);
});

test('a name that is not in the backup is a problem, and the rest is rehearsed', async () => {
  const flags = { includeNamespaces: ['esat'], includeClusterResources: true };
  const scene = { backup: [shop('a'), object('Zone', 'red')], flags };
  expect((await rehearsed(scene)).restored).toEqual(['red']);
  expect(await linesOf(scene)).toEqual([
    'problem NotInBackup namespaces esat: not found in the backup, so it is not rehearsed',
  ]);
});

test('resources have the names that Velero looks up in the target', async () => {
  const claim = {
    apiVersion: 'v1',
    kind: 'PersistentVolumeClaim',
    metadata: { namespace: 'east', name: 'c' },
  };
  const backup = [shop('a'), object('Zone', 'red'), claim];
  const selected = async (includeResources: readonly string[]) =>
    (await rehearsed({ backup, flags: { includeResources } })).restored;
  expect(await selected(['pvc'])).toEqual(['c']);
  expect(await selected(['Shop', 'zones.shop'])).toEqual(['a', 'red']);
  await expect(rehearsed({ backup, existing: [], flags: { includeResources: ['shops'] } })).rejects.toThrow(
    'Velero needs the full name',
  );
});

test('a kind of the backup that could not be read is a problem, unless it is excluded', async () => {
  const unread = [problem('NotRead', 'secrets', 'could not be read')];
  const scene = { backup: [shop('a')], unread };
  expect(await linesOf(scene)).toEqual(['problem NotRead secrets: could not be read']);
  expect(await linesOf({ ...scene, flags: { excludeResources: ['secret'] } })).toEqual([]);
});

test.each(['shop', 'shop:', ':copy', 'a:b:c'])('the mapping "%s" is wrong usage', async (pair) => {
  await expect(rehearsed({ flags: { namespaceMappings: [pair] } })).rejects.toThrow(
    `--namespace-mappings ${pair}: write it as from:to`,
  );
});

describe('the guard of the detector', () => {
  const RBAC = 'rbac.authorization.k8s.io';
  const rule = (...verbs: readonly string[]) => ({ apiGroups: [''], resources: ['pods'], verbs });
  const role = (name: string, ...verbs: readonly string[]): JsonObject => ({
    apiVersion: `${RBAC}/v1`,
    kind: 'ClusterRole',
    metadata: { name },
    rules: [rule(...verbs)],
  });
  const registration = (kind: string, version = 'v1'): JsonObject => ({
    apiVersion: `admissionregistration.k8s.io/${version}`,
    kind,
    metadata: { name: 'forged' },
  });
  const forged: JsonObject = {
    ...registration('ValidatingAdmissionPolicyBinding'),
    spec: { policyName: 'forged', validationActions: ['Audit'] },
  };
  const guarded = (guard: JsonObject) => [detectorOf({ guard })];
  const refuse = ['Permissions', 'AdmissionObjects', 'CustomResourceDefinitions', 'APIServices'];

  test('refuses what the backup brings, and reports what no guard can refuse', async () => {
    const webhooks = registration('ValidatingWebhookConfiguration');
    const backup = [...CRDS, role('a', 'get'), webhooks, forged];
    expect(await linesOf({ backup, own: guarded({ refuse }), existing: CRDS.slice(0, 1) })).toEqual([
      expect.stringMatching(
        /^problem GuardRefuses .* zones.shop.example.com: RestoreDetector velero refuses Cus/,
      ),
      expect.stringMatching(/^problem GuardRefuses clusterroles.* a: .*refuses new and changed permissions/),
      expect.stringMatching(/^problem NotGuarded validatingadmissionpolicybindings.* forged: the API server/),
      expect.stringMatching(/^problem GuardRefuses validatingwebhookconfigurations.* forged: /),
    ]);
    expect(await linesOf({ backup, own: guarded({ refuse: ['APIServices'] }) })).toEqual([]);
  });

  test('passes updates that grant nothing new, and leaves the permissions of a user to a cluster', async () => {
    const backup = [role('same', 'get'), role('more', 'get', 'list')];
    const existing = ['same', 'more'].map((name) => role(name, 'get'));
    const flags = { existingResourcePolicy: 'update' } as const;
    expect(
      await linesOf({ backup, existing, flags, own: guarded({ refuse, rightsOf: { user: 'ana' } }) }),
    ).toEqual([
      `note GuardJudges clusterroles.${RBAC} more: the guard compares it with the permissions of ana: use --against to check it now`,
    ]);
  });
});

describe('ResourceQuotas', () => {
  const core = (kind: string, name: string, spec: JsonObject = {}) => ({
    apiVersion: 'v1',
    kind,
    metadata: { namespace: 'east', name },
    spec,
  });
  const quota = (hard: JsonObject, more: JsonObject = {}) => core('ResourceQuota', 'caps', { hard, ...more });
  const stored = (hard: JsonObject, used: JsonObject) => ({ ...quota(hard), status: { hard, used } });
  const pod = (name: string, each: JsonObject, resources: JsonObject = {}) =>
    core('Pod', name, { resources, containers: [{ resources: each }, { resources: each }] });
  const claim = (name: string, storage: string) =>
    core('PersistentVolumeClaim', name, { storageClassName: 'fast', resources: { requests: { storage } } });
  const shops = [shop('a'), shop('b'), shop('c')];
  const elsewhere = [shop('a'), shop('b', {}, { namespace: 'west' })];
  const secrets = [core('Secret', 'a'), core('Secret', 'b')];
  const pods = [pod('a', { limits: { cpu: '300m' } }), pod('b', { requests: { cpu: '250m' } })];
  const claims = [claim('a', '5Gi'), claim('b', '5Gi'), claim('c', '4Gi')];
  const ofPod = [pod('a', { limits: { memory: '1Gi' } }, { limits: { memory: '1Gi' } })];
  const claimed = 'persistentvolumeclaims east/b';
  const ofClass = 'storageclass.storage.k8s.io/requests.storage';

  test.each<[string, string, string, string, readonly JsonObject[], refused?: string]>([
    ['custom objects', 'count/shops.shop.example.com', '3', '1', shops, 'shops.shop.example.com east/c'],
    ['custom objects with room', 'count/shops.shop.example.com', '4', '1', shops],
    ['not other namespaces', 'count/shops.shop.example.com', '1', '0', elsewhere],
    ['core objects', 'secrets', '2', '1', secrets, 'secrets east/b'],
    ['storage, and a smaller claim fits', 'requests.storage', '10Gi', '1Gi', claims, claimed],
    ['storage of a class', `fast.${ofClass}`, '9Gi', '0', claims, claimed],
    ['not storage of other classes', `slow.${ofClass}`, '0', '0', claims],
    ['requests, which default to limits', 'cpu', '1', '0', pods, 'pods east/b'],
    ["a Pod's limits, not its containers'", 'limits.memory', '1Gi', '0', ofPod],
  ])('a quota of the target counts %s', async (_what, limit, hard, used, backup, refused) => {
    const existing = [...CRDS, stored({ [limit]: hard }, { [limit]: used })];
    const message = `resourcequotas east/caps refuses it, because the sum exceeds ${limit} ${hard}: raise the quota before the restore`;
    const expected = refused === undefined ? [] : [`problem OverQuota ${refused}: ${message}`];
    expect(await linesOf({ backup, existing })).toEqual(expected);
  });

  const one = { 'count/shops.shop.example.com': '1' };

  test('a quota with scopes, or one that is restored before the objects, is a note', async () => {
    const scoped = quota(one, { scopes: ['NotTerminating'] });
    const backup = shops.slice(0, 2);
    const doubtful = [expect.stringMatching(/^note OverQuota shops.* east\/b: .* may refuse it/)];
    expect(await linesOf({ backup, existing: [...CRDS, scoped] })).toEqual(doubtful);
    expect(await linesOf({ backup: [quota(one), ...backup] })).toEqual(doubtful);
  });

  test('a quota that is restored after the objects refuses none', async () => {
    expect(await linesOf({ backup: [quota({ secrets: '1' }), ...secrets] })).toEqual([]);
  });

  test('an object that a dry run refuses uses nothing', async () => {
    const refused = problem('Refused', 'shops.shop.example.com east/a', 'no');
    const scene = { backup: shops.slice(0, 2), existing: [...CRDS, stored(one, {})] };
    const dryRun = () => Promise.resolve({ outcomes: [], findings: [refused] });
    const lines = await linesOf({ ...scene, dryRun });
    expect(lines).toEqual(['problem Refused shops.shop.example.com east/a: no']);
  });
});
