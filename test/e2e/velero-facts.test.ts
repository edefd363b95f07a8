// suite: shared-plane, sandbox: long
/** The imitator does what was measured with Velero 1.18 and kube-apiserver 1.36, as a webhook sees it. */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';

import type { KubeObject } from '../../src/json/kube-object.ts';
import { namespaces } from '../../src/kube/well-known.ts';
import { startCluster, type Cluster } from '../support/cluster.ts';
import { testsSandbox } from '../support/control-plane.ts';
import {
  startRecordingWebhook,
  type RecordingWebhook,
  type SeenWrite,
} from '../support/recording-webhook.ts';
import {
  application,
  APPLICATIONS,
  kindManifests,
  zone,
  type Application,
} from '../support/restore-kinds.ts';
import { asReturned, installKinds } from '../support/restore-scene.ts';
import { createVelero, installVelero, type Velero } from '../support/velero.ts';
import { VELERO } from '../support/velero-client.ts';
import { RESTORES } from '../support/velero-crd.ts';
import { CLAIMS, VOLUMES } from '../support/velero-volumes.ts';

let cluster: Cluster;
let recorder: RecordingWebhook;
let velero: Velero;

beforeAll(async () => {
  cluster = await startCluster();
  await installKinds(cluster);
  await installVelero(cluster);
  recorder = await startRecordingWebhook(cluster.admin, VELERO.user);
  velero = createVelero(cluster.plane);
  await velero.restore({ name: 'warm-up', backup: [asReturned(zone('warm-up'))] });
});

beforeEach(() => {
  recorder.reset();
});

afterAll(async () => {
  await velero.stop();
  await recorder.stop();
  await cluster.stop();
});

const space = (name: string, metadata: object = {}): KubeObject => ({
  apiVersion: 'v1',
  kind: 'Namespace',
  metadata: { name, ...metadata },
});
const core = (kind: string, namespace: string, name: string): KubeObject => ({
  ...{ apiVersion: 'v1', kind, metadata: { namespace, name } },
});
const app = (namespace: string, name: string, metadata: object = {}) =>
  asReturned(application(namespace, name, { zone: 'red' }, metadata));
const stored = (namespace: string, name: string) =>
  cluster.admin.get<Application>(APPLICATIONS, { namespace, name });

/** The writes of objects, without those of the Restore. */
const writes = () => recorder.writes.filter(({ resource }) => resource !== 'restores');
const lines = (all: readonly SeenWrite[] = writes()) =>
  all.map(({ operation, resource, name }) => `${operation} ${resource} ${name}`);
const labelsOf = ({ object }: SeenWrite) => object.metadata.labels;

describe('order', () => {
  test('CRDs, Namespaces, ServiceAccounts, Secrets, ConfigMaps, and then resources by name whatever their scope', async () => {
    const definitions = kindManifests.filter(({ kind }) => kind === 'CustomResourceDefinition');
    const copies = definitions.map((definition) => asReturned(renamed(definition)));
    const backup = [
      app('order-b', 'first'),
      zoneOf('copied.example.com', 'last'),
      asReturned(zone('middle')),
      core('ConfigMap', 'order-b', 'settings'),
      core('Secret', 'order-a', 'token'),
      core('ServiceAccount', 'order-b', 'runner'),
      space('order-b'),
      space('order-a'),
      space('order-empty'),
      ...copies,
    ];
    await velero.restore({ name: 'order', backup });
    expect(lines(writes().filter(({ operation }) => operation === 'CREATE'))).toEqual([
      ...copies.map(({ metadata: { name } }) => `CREATE customresourcedefinitions ${name}`),
      'CREATE namespaces order-a',
      'CREATE namespaces order-b',
      'CREATE namespaces order-empty',
      'CREATE serviceaccounts runner',
      'CREATE secrets token',
      'CREATE configmaps settings',
      'CREATE applications first',
      'CREATE zones last',
      'CREATE zones middle',
    ]);
  });

  test('an owner can come after its dependents', async () => {
    const owner = asReturned(zone('owner'));
    const ownerReferences = [
      { apiVersion: 'restore.example.com/v1', kind: 'Zone', name: 'owner', uid: owner.metadata.uid },
    ];
    await velero.restore({ name: 'owners', backup: [owner, app('owners', 'child', { ownerReferences })] });
    const [child, zoneAfter] = ['child', 'owner'].map((name) =>
      writes().findIndex((write) => write.name === name),
    );
    expect(child).toBeLessThan(zoneAfter ?? -1);
  });
});

/** A copy of a CRD in another group, which the cluster does not have yet. */
function renamed(definition: KubeObject): KubeObject {
  return JSON.parse(
    JSON.stringify(definition).replaceAll('restore.example.com', 'copied.example.com'),
  ) as KubeObject;
}

const zoneOf = (group: string, name: string) => asReturned({ ...zone(name), apiVersion: `${group}/v1` });

describe('writes', () => {
  test('an object is created, and then updated with the managedFields of the backup', async () => {
    const backup = [app('twice', 'one')];
    await velero.restore({ name: 'twice', backup });
    const ofApp = writes().filter(({ resource }) => resource === 'applications');
    expect(lines(ofApp)).toEqual(['CREATE applications one', 'UPDATE applications one']);
    const [created, updated] = ofApp;
    expect(updated?.object).toMatchObject({ spec: { zone: 'red' } });
    expect(JSON.stringify(updated?.object.metadata.managedFields)).toContain('2026-11-01T08:00:00Z');
    expect(JSON.stringify(created?.object.metadata.managedFields)).not.toContain('"kubectl"');
  });

  test('both writes carry the labels; names over 63 characters are shortened to 57 and a hash of 6', async () => {
    const [restore, backupName] = ['r'.repeat(70), 'b'.repeat(64)];
    await velero.restore({ name: restore, backup: [app('labels', 'one')], spec: { backupName } });
    const ofApp = writes().filter(({ resource }) => resource === 'applications');
    const expected = {
      // from sha256sum
      'velero.io/restore-name': `${'r'.repeat(57)}8e08f5`,
      'velero.io/backup-name': `${'b'.repeat(57)}a0fab1`,
    };
    expect(ofApp.map(labelsOf)).toEqual([expected, expected]);
  });

  test('a Namespace gets one CREATE with the labels of the backup only', async () => {
    await velero.restore({
      name: 'spaces',
      backup: [asReturned(space('one-create', { labels: { team: 'a' } }))],
    });
    expect(lines()).toEqual(['CREATE namespaces one-create']);
    const { metadata } = (await cluster.admin.get(namespaces, { name: 'one-create' })) ?? {};
    expect(metadata?.labels).toMatchObject({ team: 'a' });
    expect(Object.keys(metadata?.labels ?? {}).join()).not.toContain('velero.io');
  });

  test('--status-include-resources adds an UPDATE of /status', async () => {
    await velero.restore({ name: 'no-status', backup: [app('status', 'without')] });
    expect((await stored('status', 'without'))?.status).toBeUndefined();
    recorder.reset();
    const spec = { restoreStatus: { includedResources: ['applications'] } };
    await velero.restore({ name: 'status', backup: [app('status', 'with')], spec });
    // An API server whose cache is behind tries a write again, and asks webhooks again.
    expect(lines().filter((line, index, all) => line !== all[index - 1])).toEqual([
      'CREATE applications with',
      'UPDATE applications/status with',
      'UPDATE applications with',
    ]);
    expect((await stored('status', 'with'))?.status).toEqual({ ready: true });
  });

  test('ownerReferences, uid and status are dropped; finalizers and the old managedFields stay', async () => {
    const owned = {
      ownerReferences: [{ apiVersion: 'v1', kind: 'ConfigMap', name: 'gone', uid: 'old-owner' }],
      finalizers: ['test.example.com/hold'],
    };
    const original = app('stripped', 'one', owned);
    const managedFields = [
      {
        ...original.metadata.managedFields?.[0],
        fieldsV1: { 'f:metadata': { 'f:ownerReferences': { 'k:{"uid":"old-owner"}': {} } } },
      },
    ];
    const backup = [{ ...original, metadata: { ...original.metadata, managedFields } }];
    await velero.restore({ name: 'stripped', backup });
    const { metadata, status } = (await stored('stripped', 'one')) ?? {};
    expect(metadata?.ownerReferences).toBeUndefined();
    expect(metadata?.uid).not.toBe(original.metadata.uid);
    expect(status).toBeUndefined();
    expect(metadata?.finalizers).toEqual(['test.example.com/hold']);
    expect(JSON.stringify(metadata)).toContain('k:{\\"uid\\":\\"old-owner\\"}');
    await cluster.admin.patchMerge(
      APPLICATIONS,
      { namespace: 'stripped', name: 'one' },
      { metadata: { finalizers: null } },
    );
  });
});

describe('--existing-resource-policy', () => {
  const changed = { namespace: 'existing', name: 'changed' };
  /** As the cluster returns them. */
  let backup: readonly KubeObject[] = [];

  beforeAll(async () => {
    const fresh = ['same', 'changed'].map((name) => application('existing', name, { zone: 'red' }));
    await velero.restore({ name: 'before', backup: fresh });
    ({ items: backup } = await cluster.admin.listAll<Application>(APPLICATIONS, { namespace: 'existing' }));
    await cluster.admin.patchMerge(APPLICATIONS, changed, { spec: { zone: 'blue' } });
  });

  test('without it, existing objects are not written', async () => {
    const { warnings } = await velero.restore({ name: 'none', backup });
    expect(writes()).toEqual([]);
    expect(warnings).toEqual([
      'could not restore applications.restore.example.com/existing/changed: it exists and is different',
    ]);
  });

  test('update: also unchanged objects get an UPDATE', async () => {
    const spec = { existingResourcePolicy: 'update' } as const;
    await velero.restore({ name: 'update', backup, spec });
    expect(lines()).toEqual(['UPDATE applications changed', 'UPDATE applications same']);
    expect(writes().map(labelsOf)).toMatchObject([
      { 'velero.io/restore-name': 'update' },
      { 'velero.io/restore-name': 'update' },
    ]);
    expect((await stored('existing', 'changed'))?.spec.zone).toBe('red');
  });

  test('update: after a refusal, the second attempt has only the labels', async () => {
    await cluster.admin.patchMerge(APPLICATIONS, changed, { spec: { zone: 'blue' } });
    const zoneIn = ({ object }: SeenWrite) => (object as unknown as Application).spec.zone;
    recorder.refuse((write) =>
      write.name === 'changed' && zoneIn(write) === 'red' ? { code: 403, message: 'not red' } : undefined,
    );
    const spec = { existingResourcePolicy: 'update' } as const;
    const result = await velero.restore({ name: 'second', backup, spec });
    expect(result).toMatchObject({ phase: 'Completed', errors: [] });
    expect(result.warnings).toHaveLength(1);
    // The API server can call webhooks twice for one patch.
    const attempts = new Set(writes().flatMap((write) => (write.name === 'changed' ? [zoneIn(write)] : [])));
    expect([...attempts]).toEqual(['red', 'blue']);
    expect((await stored('existing', 'changed'))?.metadata?.labels).toMatchObject({
      'velero.io/restore-name': 'second',
    });
  });
});

describe('phases', () => {
  const phases = () => [
    ...new Set(
      recorder.writes
        .filter(({ resource }) => resource === 'restores')
        .map(({ object }) => (object as { status?: { phase?: string } }).status?.phase),
    ),
  ];

  test('none, InProgress, Finalizing, Completed; the first write comes at least 0.2 s after InProgress', async () => {
    const run = await velero.begin({ name: 'phases', backup: [app('phases', 'one')] });
    const began = performance.now();
    recorder.refuse(({ resource }) => {
      if (resource !== 'restores' && lead === 0) lead = performance.now() - began;
      return undefined;
    });
    let lead = 0;
    await run.write();
    await run.finish();
    expect(phases()).toEqual([undefined, 'InProgress', 'Finalizing', 'Completed']);
    expect(lead).toBeGreaterThan(190);
    const restore = await cluster.admin.get(RESTORES, { namespace: 'velero', name: 'phases' });
    expect(restore).toMatchObject({ status: { phase: 'Completed', progress: { itemsRestored: 1 } } });
  });

  test('an error leads to FinalizingPartiallyFailed and PartiallyFailed', async () => {
    recorder.refuse(({ resource }) =>
      resource === 'applications' ? { code: 403, message: 'no' } : undefined,
    );
    await velero.restore({ name: 'failing', backup: [app('phases', 'two')] });
    expect(phases()).toEqual([undefined, 'InProgress', 'FinalizingPartiallyFailed', 'PartiallyFailed']);
  });

  const volume = { apiVersion: 'v1', kind: 'PersistentVolume', metadata: { name: 'fresh' } };
  test.skipIf(testsSandbox())(
    'in Finalizing, PersistentVolumes are patched (not on the sandbox, which has none)',
    async () => {
      const claim = { namespace: 'phases', name: 'data' };
      const size = { storage: '1Gi' };
      const accessModes = ['ReadWriteOnce'];
      await cluster.admin.create(VOLUMES, {
        ...volume,
        spec: {
          ...{ accessModes, capacity: size, hostPath: { path: '/tmp' }, claimRef: claim },
          persistentVolumeReclaimPolicy: 'Delete',
        },
      } as KubeObject);
      await cluster.admin.create(CLAIMS, {
        ...{ apiVersion: 'v1', kind: 'PersistentVolumeClaim', metadata: claim },
        spec: { accessModes, resources: { requests: size }, volumeName: 'fresh', storageClassName: '' },
      } as KubeObject);
      await cluster.admin.patchStatus(CLAIMS, claim, { status: { phase: 'Bound' } });
      const volumes = [{ claim, reclaimPolicy: 'Retain', labels: { disk: 'fast' } }];
      await velero.restore({ name: 'volumes', backup: [app('phases', 'three')], volumes });
      const after = recorder.writes.slice(
        recorder.writes.findIndex(({ object }) => JSON.stringify(object).includes('"Finalizing"')),
      );
      expect(lines(after)).toContain('UPDATE persistentvolumes fresh');
      expect(await cluster.admin.get(VOLUMES, { name: 'fresh' })).toMatchObject({
        metadata: { labels: { disk: 'fast' } },
        spec: { persistentVolumeReclaimPolicy: 'Retain' },
      });
    },
  );
});

describe('refusals', () => {
  const attempts = () =>
    writes().filter(({ operation, resource }) => operation === 'CREATE' && resource === 'applications')
      .length;
  const refuseCreations = (code: number, details?: { retryAfterSeconds: number }, times = Infinity) => {
    recorder.refuse(({ operation, resource }) =>
      operation === 'CREATE' && resource === 'applications' && attempts() < times
        ? { code, message: 'not now', ...(details === undefined ? {} : { details }) }
        : undefined,
    );
  };

  test.each([403, 429, 503])(
    '%i without retryAfterSeconds loses the object after one attempt',
    async (code) => {
      refuseCreations(code);
      const { phase, errors } = await velero.restore({
        name: `lost-${code}`,
        backup: [app('lost', `of-${code}`)],
      });
      expect(attempts()).toBe(1);
      expect(phase).toBe('PartiallyFailed');
      expect(errors).toHaveLength(1);
      expect(await stored('lost', `of-${code}`)).toBeUndefined();
    },
  );

  test.each([429, 503])('%i with retryAfterSeconds is retried, while the next object waits', async (code) => {
    refuseCreations(code, { retryAfterSeconds: 1 }, 2);
    const backup = [app('retried', `a-${code}`), app('retried', `b-${code}`)];
    const result = await velero.restore({ name: `retried-${code}`, backup });
    expect(result).toMatchObject({ phase: 'Completed', errors: [] });
    expect(lines().filter((line) => line.startsWith('CREATE app'))).toEqual([
      ...Array.from({ length: 3 }, () => `CREATE applications a-${code}`),
      `CREATE applications b-${code}`,
    ]);
  });

  test('the object is lost after 11 attempts', async () => {
    refuseCreations(429, { retryAfterSeconds: 1 });
    const { errors } = await velero.restore({ name: 'eleven', backup: [app('retried', 'eleven')] });
    expect(attempts()).toBe(11);
    expect(errors).toHaveLength(1);
  });

  test('a refused patch of managedFields makes the restore PartiallyFailed, and the object stays', async () => {
    recorder.refuse(({ operation, resource }) =>
      operation === 'UPDATE' && resource === 'applications' ? { code: 403, message: 'no' } : undefined,
    );
    const { phase, errors } = await velero.restore({ name: 'fields', backup: [app('fields', 'one')] });
    expect(phase).toBe('PartiallyFailed');
    expect(errors[0]).toMatch(
      /^error patch for managed fields applications\.restore\.example\.com\/fields\/one/,
    );
    expect(await stored('fields', 'one')).toBeDefined();
  });
});
