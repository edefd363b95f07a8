// suite: shared-plane, sandbox: long
/**
 * A restore by Velero from its first request to the report, as its users see it. The ids are those of
 * research/restore.md.
 */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';

import { OWNER_RECORD_ANNOTATION } from '../../src/api/owner-record.ts';
import type { RestoreWindow } from '../../src/api/restore-window.ts';
import type { KubeClient } from '../../src/kube/client.ts';
import type { KubeObject } from '../../src/json/kube-object.ts';
import { namespaces } from '../../src/kube/well-known.ts';
import { createNamespace, RESTORE_WINDOWS, type Cluster } from '../support/cluster.ts';
import { seeInForce, startGatehouse } from '../support/gatehouse-cluster.ts';
import type { Replica } from '../support/gatehouse.ts';
import { eventually } from '../support/processes.ts';
import {
  application,
  APPLICATIONS,
  ownersPolicy,
  relinkRole,
  zone,
  ZONES,
  type Application,
} from '../support/restore-kinds.ts';
import {
  asReturned,
  enforceApplications,
  installKinds,
  isVerified,
  seeReportOf,
  seeWindowOf,
  trustVelero,
  untilDetectorCounts,
  verdictOf,
} from '../support/restore-scene.ts';
import { createVelero, installVelero, type Velero } from '../support/velero.ts';
import { createToolClient, VELERO } from '../support/velero-client.ts';
import { backupObject, validName, type BackupObject } from '../support/velero-objects.ts';

let cluster: Cluster;
let replica: Replica;
let velero: Velero;
let alice: KubeClient;
/** Three Applications in two namespaces, and the two Zones that they name. */
let shops: readonly BackupObject[] = [];

const APPS = '/apis/restore.example.com/v1/namespaces';

beforeAll(async () => {
  ({ cluster, replica } = await startGatehouse({
    prepare: async (fresh) => {
      await installKinds(fresh);
      await installVelero(fresh);
    },
  }));
  shops = await backUpShops();
  await enforceApplications(cluster);
  velero = createVelero(cluster.plane, { seed: 7 });
  alice = await cluster.as('alice');
});

afterAll(async () => {
  await velero.stop();
  await replica.program.stop(15_000);
  await cluster.stop();
});

/** Creates the objects, reads them back as a backup, and deletes all but the namespaces. */
async function backUpShops(): Promise<readonly BackupObject[]> {
  const places = await Promise.all(['east', 'west'].map((name) => createNamespace(cluster, name)));
  const zones = await Promise.all(['red', 'blue'].map((name) => cluster.admin.create(ZONES, zone(name))));
  const apps = await Promise.all(
    [
      application('east', 'cart', { zone: 'red' }),
      application('east', 'pay', { zone: 'blue', parent: 'cart' }),
      application('west', 'mail', { zone: 'red', peer: { namespace: 'east', name: 'pay' } }),
    ].map((app) => cluster.admin.create<Application>(APPLICATIONS, app)),
  );
  const spaces = await Promise.all(places.map((name) => cluster.admin.get(namespaces, { name })));
  await deleteAll([...apps, ...zones]);
  return [...zones, ...apps, ...spaces.filter((space) => space !== undefined)].map(backupObject);
}

async function deleteAll(objects: readonly KubeObject[]): Promise<void> {
  for (const { kind, metadata } of objects) {
    const resource = kind === ZONES.kind ? ZONES : APPLICATIONS;
    await cluster.admin.delete(resource, { namespace: metadata?.namespace, name: metadata?.name ?? '' });
  }
}

const stored = (namespace: string, name: string) =>
  cluster.admin.get<Application>(APPLICATIONS, { namespace, name });

const dangling = (namespace: string, name: string) =>
  asReturned(application(namespace, name, { zone: `of-${name}` }));

describe('without a detector', () => {
  test('A1: the restore is PartiallyFailed, and the refused objects are missing', async () => {
    const { phase, errors } = await velero.restore({ name: 'a1', backup: shops });
    expect(phase).toBe('PartiallyFailed');
    expect(errors.length).toBeGreaterThan(0);
    for (const error of errors)
      expect(error).toMatch(/^error restoring applications\.restore\.example\.com\//);
    expect(await stored('east', 'cart')).toBeUndefined();
    // the Zone was restored after the Application that names it
    expect(await cluster.admin.get(ZONES, { name: 'red' })).toBeDefined();
    await deleteAll(shops.filter(({ kind }) => kind === ZONES.kind));
  });
});

describe('with the detector for Velero', () => {
  beforeAll(async () => {
    await trustVelero(cluster);
    const started = performance.now();
    await untilDetectorCounts(cluster);
    console.log(`the detector works after ${Math.round(performance.now() - started)} ms`);
  });

  test('A2: the restore is Completed without an error, its report is clean, and every check is enforced again afterwards', async () => {
    expect(await velero.restore({ name: 'a2', backup: shops })).toEqual({
      phase: 'Completed',
      errors: [],
      warnings: [],
    });
    const mail = await stored('west', 'mail');
    expect(mail?.metadata?.labels).toEqual({ 'velero.io/backup-name': 'b1', 'velero.io/restore-name': 'a2' });
    expect(mail?.spec).toEqual({ zone: 'red', peer: { namespace: 'east', name: 'pay' } });
    const report = await seeReportOf(cluster, 'a2');
    expect(report.metadata.labels).toMatchObject({ 'velero.io/exclude-from-backup': 'true' });
    expect(report.spec.source).toMatchObject({ type: 'Detector', ref: { kind: 'Restore', name: 'a2' } });
    expect(report.status).toMatchObject({ phase: 'Completed', closeReason: 'SourceInactive' });
    expect(isVerified(report)).toBe(true);
    expect(await verdictOf(alice, application('east', 'late', { zone: 'gone' }))).toContain('spec.zone');
    expect(
      await verdictOf(cluster.impersonate(VELERO), application('east', 'late', { zone: 'gone' })),
    ).toContain('spec.zone');
  });

  test('A3: a cycle, a chain within one kind and references across namespaces are restored, whatever the order', async () => {
    await createNamespace(cluster, 'knot');
    await createNamespace(cluster, 'tie');
    const backup = [
      application('knot', 'a', { parent: 'b' }),
      application('knot', 'b', { parent: 'a' }),
      application('knot', 'c', { parent: 'd' }),
      application('knot', 'd', { parent: 'e' }),
      application('knot', 'e', { peer: { namespace: 'tie', name: 'f' } }),
      application('tie', 'f', { peer: { namespace: 'knot', name: 'a' } }),
    ].map(asReturned);
    const { errors } = await velero.restore({ name: 'a3', backup });
    expect(errors).toEqual([]);
    expect(isVerified(await seeReportOf(cluster, 'a3'))).toBe(true);
  });

  test('A4: a parent that is not in the backup is one violation, which disappears when a user creates the parent', async () => {
    await createNamespace(cluster, 'lost');
    const { errors } = await velero.restore({ name: 'a4', backup: [dangling('lost', 'orphan')] });
    expect(errors).toEqual([]);
    const report = await seeReportOf(cluster, 'a4');
    expect(report.status?.violations).toMatchObject({
      total: 1,
      items: [
        {
          policy: 'applications',
          reference: 'zone',
          field: 'spec.zone',
          reason: 'TargetMissing',
          object: { kind: 'Application', namespace: 'lost', name: 'orphan' },
          target: { resource: 'zones', name: 'of-orphan' },
        },
      ],
    });
    expect(isVerified(report)).toBe(false);
    await cluster.admin.create(ZONES, zone('of-orphan'));
    await seeWindowOf(cluster, 'a4', 'the violation is gone', isVerified);
  });

  test('of three restores into one namespace, each report names the object of its own restore, and none what others broke', async () => {
    await createNamespace(cluster, 'shared');
    await cluster.admin.create(ZONES, zone('fleeting'));
    const old = await cluster.admin.create(APPLICATIONS, application('shared', 'old', { zone: 'fleeting' }));
    // Creation times have whole seconds: a window that opens in the same second may have written the object.
    const nextSecond = Date.parse(old.metadata?.creationTimestamp ?? '') + 1_000;
    await eventually('the next second', () => Date.now() >= nextSecond);
    // no policy protects the Zone
    await cluster.admin.delete(ZONES, { name: 'fleeting' });
    const names = ['first', 'second', 'third'];
    for (const name of names)
      expect((await velero.restore({ name, backup: [dangling('shared', `of-${name}`)] })).errors).toEqual([]);
    for (const name of names) {
      const { status } = await seeReportOf(cluster, name);
      expect(status?.violations?.items.map(({ object }) => object.name)).toEqual([`of-${name}`]);
    }
  });

  test('A5: managedFields and status of an object with a dangling reference are accepted, during the window and after it', async () => {
    await createNamespace(cluster, 'half');
    const backup = [dangling('half', 'loose')];
    const { errors } = await velero.restore({
      name: 'a5',
      backup,
      spec: { restoreStatus: { includedResources: ['applications'] } },
    });
    expect(errors).toEqual([]);
    expect((await stored('half', 'loose'))?.status).toEqual({ ready: true });
    await seeReportOf(cluster, 'a5');

    const path = `${APPS}/half/applications/loose`;
    const managedFields = backup[0]?.metadata.managedFields;
    expect((await velero.client.send('PATCH', path, { metadata: { managedFields } })).code).toBe(200);
    expect((await velero.client.send('PATCH', path, { metadata: { labels: { seen: 'yes' } } })).code).toBe(
      200,
    );
    const { body } = await velero.client.send('GET', path);
    const status = await velero.client.send('PUT', `${path}/status`, { ...body, status: { ready: false } });
    expect(status.code).toBe(200);
  });

  test('A6: an object with a dangling reference can be deleted, and its finalizer can be removed', async () => {
    await createNamespace(cluster, 'held');
    const held = asReturned(
      application('held', 'stuck', { zone: 'of-stuck' }, { finalizers: ['restore.example.com/hold'] }),
    );
    expect((await velero.restore({ name: 'a6', backup: [held] })).errors).toEqual([]);
    const ref = { namespace: 'held', name: 'stuck' };
    await alice.delete(APPLICATIONS, ref);
    expect((await stored('held', 'stuck'))?.metadata?.deletionTimestamp).toBeDefined();
    await alice.patchMerge(APPLICATIONS, ref, { metadata: { finalizers: null } });
    expect(await stored('held', 'stuck')).toBeUndefined();
  });

  test('A7: during a restore, other users are refused as before, whatever labels and user agent they use', async () => {
    await createNamespace(cluster, 'busy');
    const run = await velero.begin({ name: 'a7', backup: [dangling('busy', 'restored')] });
    const forged = application(
      'busy',
      'forged',
      { zone: 'gone' },
      {
        labels: { 'velero.io/restore-name': 'a7', 'velero.io/backup-name': 'b1' },
      },
    );
    expect(await verdictOf(alice, forged)).toContain('spec.zone');
    const pretender = createToolClient(cluster.plane, {
      user: 'alice',
      groups: ['system:authenticated'],
      userAgent: VELERO.userAgent,
    });
    const answer = await pretender.send('POST', `${APPS}/busy/applications`, forged);
    await pretender.stop();
    expect(answer.code).toBe(403);
    await run.write();
    expect((await run.finish()).errors).toEqual([]);
  });

  test('A8: with the policy "update", an object may get a dangling reference; an immutable field is refused, but the labels are written', async () => {
    await createNamespace(cluster, 'redo');
    await cluster.admin.create(ZONES, zone('here'));
    await cluster.admin.create(APPLICATIONS, application('redo', 'moved', { zone: 'here' }));
    await cluster.admin.create(APPLICATIONS, application('redo', 'named', { zone: 'here', slug: 'new' }));
    const backup = [
      asReturned(application('redo', 'moved', { zone: 'of-moved' })),
      asReturned(application('redo', 'named', { zone: 'here', slug: 'old' })),
    ];
    const result = await velero.restore({
      name: 'a8',
      backup,
      spec: { existingResourcePolicy: 'update' },
    });
    expect(result.errors).toEqual([]);
    expect(result.warnings).toHaveLength(1);
    expect(result.warnings[0]).toContain('spec.slug');
    expect((await stored('redo', 'moved'))?.spec.zone).toBe('of-moved');
    const named = await stored('redo', 'named');
    expect(named?.spec.slug).toBe('new');
    expect(named?.metadata?.labels).toMatchObject({ 'velero.io/restore-name': 'a8' });
  });

  test('A9: the report names a copy that still refers to the original namespace', async () => {
    await createNamespace(cluster, 'prod');
    const db = application('prod', 'db', {});
    const shop = application('prod', 'shop', { parent: 'db', peer: { namespace: 'prod', name: 'db' } });
    for (const original of [db, shop]) await cluster.admin.create(APPLICATIONS, original);
    const { errors } = await velero.restore({
      name: 'a9',
      backup: [db, shop].map(asReturned),
      spec: { namespaceMapping: { prod: 'prod-copy' } },
    });
    expect(errors).toEqual([]);
    expect((await stored('prod-copy', 'shop'))?.spec).toEqual(shop.spec);
    const report = await seeReportOf(cluster, 'a9');
    expect(report.spec.namespaceMapping).toEqual({ prod: 'prod-copy' });
    const items = report.status?.violations?.items ?? [];
    expect(items.filter(({ object }) => object.namespace?.startsWith('prod'))).toMatchObject([
      {
        policy: 'applications',
        reference: 'peer',
        field: 'spec.peer.name',
        reason: 'CrossesNamespaceMapping',
        object: { kind: 'Application', namespace: 'prod-copy', name: 'shop' },
        target: { resource: 'applications', namespace: 'prod', name: 'db' },
      },
    ]);
  });

  test('A9: owners are linked within the copied namespace', async () => {
    await createNamespace(cluster, 'owned');
    await cluster.apply(ownersPolicy, relinkRole);
    await seeInForce(cluster, ownersPolicy.metadata.name);
    const owner = await cluster.admin.create(APPLICATIONS, application('owned', 'db', {}));
    const ownerReferences = [
      {
        apiVersion: 'restore.example.com/v1',
        kind: 'Application',
        name: 'db',
        uid: owner.metadata?.uid ?? '',
      },
    ];
    const child = await eventually('the owner is recorded', async () => {
      const made = application('owned', 'shop', {}, { ownerReferences });
      const probe = await cluster.admin.create<Application>(APPLICATIONS, made, { dryRun: true });
      if (probe.metadata?.annotations?.[OWNER_RECORD_ANNOTATION] === undefined) return undefined;
      return await cluster.admin.create<Application>(APPLICATIONS, made);
    });
    // The child comes first, before its owner exists.
    const { errors } = await velero.restore({
      name: 'a9-owners',
      backup: [child, owner].map(backupObject),
      spec: { namespaceMapping: { owned: 'owned-copy' } },
    });
    expect(errors).toEqual([]);
    await seeReportOf(cluster, 'a9-owners');
    const copy = await stored('owned-copy', 'db');
    const linked = await eventually('the copy is linked', async () => {
      const found = await stored('owned-copy', 'shop');
      return (found?.metadata?.ownerReferences ?? []).length > 0 ? found : undefined;
    });
    expect(linked.metadata?.ownerReferences?.map(({ name, uid }) => [name, uid])).toEqual([
      ['db', copy?.metadata?.uid],
    ]);
    expect(copy?.metadata?.uid).not.toBe(owner.metadata?.uid);
    expect((await stored('owned', 'shop'))?.metadata?.ownerReferences).toEqual(ownerReferences);
  });

  test('A10: a Restore with a long name is found by its uid, and its label has the name as Velero shortens it', async () => {
    const name = `drill-${'x'.repeat(74)}`;
    await createNamespace(cluster, 'long');
    expect((await velero.restore({ name, backup: [dangling('long', 'tail')] })).errors).toEqual([]);
    const label = (await stored('long', 'tail'))?.metadata?.labels?.['velero.io/restore-name'] ?? '';
    expect(label).toHaveLength(63);
    expect(label).toBe(validName(name));
    const report = await seeReportOf(cluster, name);
    expect(report.spec.source?.ref?.name).toBe(name);
  });

  test('A11: a parent and a child that is created immediately after it are never refused, 500 times', async () => {
    await createNamespace(cluster, 'quick');
    for (let index = 0; index < 500; index++) {
      await alice.create(ZONES, zone(`quick-${index}`));
      const child = application('quick', `child-${index}`, { zone: `quick-${index}` });
      expect(await verdictOf(alice, child)).toBe('allowed');
    }
  });

  test('A12: a dry run gets the same answer as the real request, and stores nothing', async () => {
    await createNamespace(cluster, 'try');
    const restorer = cluster.impersonate(VELERO);
    const child = application('try', 'dry', { zone: 'of-dry' });
    expect(await verdictOf(restorer, child, { dryRun: true })).toContain('spec.zone');
    const run = await velero.begin({ name: 'a12', backup: [] });
    expect(await verdictOf(restorer, child, { dryRun: true })).toBe('allowed');
    expect(await verdictOf(alice, child, { dryRun: true })).toContain('spec.zone');
    expect(await stored('try', 'dry')).toBeUndefined();
    await run.write();
    await run.finish();
    const report: RestoreWindow = await seeReportOf(cluster, 'a12');
    expect(report.status?.violations?.items.filter(({ object }) => object.namespace === 'try')).toEqual([]);
    expect((await cluster.admin.get(RESTORE_WINDOWS, { name: report.metadata.name ?? '' }))?.kind).toBe(
      'RestoreWindow',
    );
  });
});
