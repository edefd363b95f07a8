// suite: shared-plane, sandbox: long
/**
 * Owner references, and uids inside objects, are current after a restore in any order. Gatehouse never adds an owner that would
 * cause an object to be deleted.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';

import { OWNER_RECORD_ANNOTATION } from '../../src/api/owner-record.ts';
import { clusterAdmin, DATACENTERS, SERVERS, type Server } from '../../src/cli/sandbox/tour-objects.ts';
import type { OwnerReference } from '../../src/json/kube-object.ts';
import { createNamespace, type Cluster, untilGone } from '../support/cluster.ts';
import { seeInForce, startGatehouse } from '../support/gatehouse-cluster.ts';
import { condition, datacenter, server, inShop } from '../support/objects.ts';
import { backupOf, createOwnerScene, ownersOf, recordOf, type OwnerScene } from '../support/owner-scene.ts';
import { eventually } from '../support/processes.ts';
import {
  application,
  APPLICATIONS,
  relinkRole,
  uidsPolicy,
  type Application,
  kindManifests,
} from '../support/restore-kinds.ts';
import { VELERO } from '../support/velero-client.ts';

let cluster: Cluster;
let scene: OwnerScene;

/** Longer than the garbage collector takes to delete an object with a wrong owner. */
const SURVIVES_MS = 5_000;

beforeAll(async () => {
  ({ cluster } = await startGatehouse());
  scene = await createOwnerScene(cluster);
});

afterAll(() => cluster.stop());

test('the owner record of an object follows every change of its owners, and users cannot change the record', async () => {
  const first = await scene.create('recorded', [await scene.ownerNamed('fra1')]);
  expect(JSON.parse(recordOf(first) ?? '')).toMatchObject({
    v: 1,
    self: 'recorded',
    refs: [{ kind: 'Datacenter', name: 'fra1', uid: ownersOf(first)[0]?.uid }],
  });
  await cluster.admin.create(DATACENTERS, datacenter('second'));
  const both = await cluster.admin.patchMerge<Server>(SERVERS, scene.place('recorded'), {
    metadata: {
      ownerReferences: [...ownersOf(first), await scene.ownerNamed('second')],
      annotations: { [OWNER_RECORD_ANNOTATION]: null },
    },
  });
  expect(recordOf(both)).toContain('"name":"second"');
});

test('G2: a child that is restored before its owner is linked by the sweep, survives, and is deleted with its owner', async () => {
  const early = await scene.backUp('early', 'later', { controller: true, blockOwnerDeletion: true });
  await scene.open('g2');
  const restored = await scene.restorer.create(SERVERS, early);
  expect(ownersOf(restored)).toEqual([]);
  expect(recordOf(restored)).toBe(recordOf(early));
  // Velero sends this patch after each creation.
  const patched = await scene.restorer.patchMerge<Server>(SERVERS, scene.place('early'), {
    metadata: { managedFields: [] },
  });
  expect(recordOf(patched)).toBe(recordOf(early));
  const owner = await scene.restorer.create(DATACENTERS, datacenter('later'));

  const report = await scene.close('g2');
  expect(report.status?.relink).toMatchObject({ found: 1, linked: 1, skipped: 0, failed: 0, items: [] });
  expect(condition(report, 'OwnersRelinked')).toMatchObject({ status: 'True', reason: 'Linked' });
  const linked = await scene.find('early');
  const later = await scene.ownerNamed('later', { controller: true, blockOwnerDeletion: true });
  expect(later.uid).toBe(owner.metadata?.uid);
  expect(ownersOf(linked)).toEqual([later]);
  expect(recordOf(linked)).toContain(owner.metadata?.uid);
  await sleep(SURVIVES_MS);
  expect(ownersOf(await scene.find('early'))).toHaveLength(1);

  // The garbage collector begins to watch a new kind within 30 s. Until then, it knows no children.
  await cluster.admin.create(DATACENTERS, datacenter('probe'));
  await scene.create('of-probe', [await scene.ownerNamed('probe')]);
  await cluster.admin.delete(DATACENTERS, { name: 'probe' });
  await scene.untilGone('of-probe');

  // A foreground deletion waits for children with blockOwnerDeletion.
  const hold = 'test.example.com/hold';
  await cluster.admin.patchMerge(SERVERS, scene.place('early'), { metadata: { finalizers: [hold] } });
  await cluster.admin.delete(DATACENTERS, { name: 'later' }, { propagationPolicy: 'Foreground' });
  await eventually(
    'the child is being deleted',
    async () => (await scene.find('early'))?.metadata?.deletionTimestamp !== undefined,
  );
  expect(await cluster.admin.get(DATACENTERS, { name: 'later' })).toBeDefined();
  await cluster.admin.patchMerge(SERVERS, scene.place('early'), { metadata: { finalizers: null } });
  await scene.untilGone('early');
  await untilGone(cluster, DATACENTERS, { name: 'later' });
});

test('G3: a child whose owner exists is created with the current uid of that owner', async () => {
  const backup = await scene.backUp('prompt', 'present', { blockOwnerDeletion: true });
  await scene.open('g3');
  const owner = await scene.restorer.create(DATACENTERS, datacenter('present'));
  expect(ownersOf(await scene.restorer.create(SERVERS, backup, { dryRun: true }))).toHaveLength(1);
  const restored = await scene.restorer.create(SERVERS, backup);
  const present = await scene.ownerNamed('present', { blockOwnerDeletion: true });
  expect(present.uid).toBe(owner.metadata?.uid);
  expect(ownersOf(restored)).toEqual([present]);
  expect(recordOf(restored)).toContain(owner.metadata?.uid);
  const report = await scene.close('g3');
  expect(report.status?.relink).toMatchObject({ found: 0, linked: 0 });
  expect(condition(report, 'OwnersRelinked')?.status).toBe('True');
});

test('G4: a child that has another controller by now keeps that controller, and gets its other owners', async () => {
  await cluster.admin.create(DATACENTERS, datacenter('other-owner'));
  const other = await scene.ownerNamed('other-owner');
  await cluster.admin.create(DATACENTERS, datacenter('old-controller'));
  const stored = await scene.create('adopted', [
    await scene.ownerNamed('old-controller', { controller: true }),
    other,
  ]);
  await cluster.admin.delete(SERVERS, scene.place('adopted'));
  await cluster.admin.delete(DATACENTERS, { name: 'old-controller' });
  await cluster.admin.create(DATACENTERS, datacenter('new-controller'));
  await scene.open('g4');
  await scene.restorer.create(SERVERS, backupOf(stored));
  await scene.restorer.create(DATACENTERS, datacenter('old-controller'));
  await cluster.admin.patchMerge(SERVERS, scene.place('adopted'), {
    metadata: { ownerReferences: [await scene.ownerNamed('new-controller', { controller: true })] },
  });

  const report = await scene.close('g4');
  const child = await scene.find('adopted');
  expect(ownersOf(child).map(({ name, controller }) => [name, controller ?? false])).toEqual([
    ['new-controller', true],
    ['other-owner', false],
  ]);
  expect(recordOf(child)).not.toContain('old-controller');
  expect(report.status?.relink).toMatchObject({ failed: 0 });
});

test('after a link, the manager of the owner applies it again without a conflict, and still controls it', async () => {
  const manager = { fieldManager: 'server-controller' };
  const apply = async (owners: readonly OwnerReference[]) =>
    await cluster.admin.apply<Server>(
      SERVERS,
      server('shop', 'applied', 'fra1', { ownerReferences: owners }),
      manager,
    );
  await cluster.admin.create(DATACENTERS, datacenter('applier'));
  const old = await scene.ownerNamed('applier', { controller: true });
  const stored = await apply([old]);
  const { managedFields } = (stored.metadata ?? {}) as { readonly managedFields?: readonly object[] };
  await cluster.admin.delete(SERVERS, scene.place('applied'));
  await cluster.admin.delete(DATACENTERS, { name: 'applier' });

  await scene.open('fields');
  await scene.restorer.create(SERVERS, backupOf(stored));
  await scene.restorer.patchMerge(SERVERS, scene.place('applied'), { metadata: { managedFields } });
  expect(JSON.stringify(await scene.find('applied'))).toContain(`f:ownerReferences`);
  await scene.restorer.create(DATACENTERS, datacenter('applier'));
  await scene.close('fields');

  const linked = await scene.find('applied');
  expect(ownersOf(linked)).toHaveLength(1);
  expect(JSON.stringify(linked)).not.toContain(old.uid);
  expect(JSON.stringify(linked)).not.toContain('f:ownerReferences');
  const wanted = await scene.ownerNamed('applier', { controller: true, blockOwnerDeletion: true });
  expect(ownersOf(await apply([wanted]))).toEqual([wanted]);
  expect(ownersOf(await apply([]))).toEqual([]);
});

test('G6: an object that was orphaned on purpose stays an orphan', async () => {
  await cluster.admin.create(DATACENTERS, datacenter('leaving'));
  await scene.create('orphan', [await scene.ownerNamed('leaving')]);
  await cluster.admin.delete(DATACENTERS, { name: 'leaving' }, { propagationPolicy: 'Orphan' });
  const orphan = await eventually('the child is an orphan', async () => {
    const child = await scene.find('orphan');
    return child !== undefined && ownersOf(child).length === 0 ? child : undefined;
  });
  expect(recordOf(orphan)).toBeUndefined();
  await cluster.admin.delete(SERVERS, scene.place('orphan'));
  await scene.open('g6');
  await scene.restorer.create(DATACENTERS, datacenter('leaving'));
  expect(ownersOf(await scene.restorer.create(SERVERS, backupOf(orphan)))).toEqual([]);
  await scene.close('g6');
  expect(ownersOf(await scene.find('orphan'))).toEqual([]);
});

test('G7: a copy of a manifest does not gain owners, and Gatehouse ignores a record that a user writes', async () => {
  const owned = await scene.create('original', [await scene.ownerNamed('fra1')]);
  await scene.open('g7');
  const copy = await scene.alice.create(SERVERS, backupOf(owned, 'copy'));
  expect([ownersOf(copy), recordOf(copy)]).toEqual([[], undefined]);
  // A create under the name in the record gains no owners either.
  await cluster.admin.delete(SERVERS, scene.place('original'));
  const forged = await scene.alice.create(SERVERS, backupOf(owned));
  expect([ownersOf(forged), recordOf(forged)]).toEqual([[], undefined]);
  const patched = await scene.alice.patchMerge<Server>(SERVERS, scene.place('original'), {
    metadata: { annotations: { [OWNER_RECORD_ANNOTATION]: recordOf(owned) } },
  });
  expect(recordOf(patched)).toBeUndefined();
  // A copy by the restorer gains no owners either.
  const twin = await scene.restorer.create(SERVERS, backupOf(owned, 'twin'));
  expect([ownersOf(twin), recordOf(twin)]).toEqual([[], undefined]);
  await scene.close('g7');
  for (const name of ['copy', 'original', 'twin']) expect(ownersOf(await scene.find(name))).toEqual([]);
});

test('G9: owner references that the backup tool restored itself do not change, and the sweep has nothing to do', async () => {
  const backup = await scene.backUp('linked-by-tool', 'known');
  await scene.open('g9');
  await scene.restorer.create(SERVERS, backup);
  await scene.restorer.create(DATACENTERS, datacenter('known'));
  const refs = [await scene.ownerNamed('known')];
  const linked = await scene.restorer.patchMerge<Server>(SERVERS, scene.place('linked-by-tool'), {
    metadata: { ownerReferences: refs },
  });
  const report = await scene.close('g9');
  const after = await scene.find('linked-by-tool');
  expect(ownersOf(after)).toEqual(refs);
  expect(after?.metadata?.resourceVersion).toBe(linked.metadata?.resourceVersion);
  expect(condition(report, 'OwnersRelinked')?.status).toBe('True');
});

test('the report names owners that cannot be linked, and a window can disable linking', async () => {
  const missing = await scene.backUp('half', 'never-restored');
  const there = await scene.backUp('whole', 'restored-late');
  await scene.open('listed', { relinkOwners: 'Report' });
  await scene.restorer.create(SERVERS, missing);
  await scene.restorer.create(SERVERS, there);
  await scene.restorer.create(DATACENTERS, datacenter('restored-late'));
  const report = await scene.close('listed');
  expect(report.status?.relink).toMatchObject({
    found: 2,
    linked: 0,
    skipped: 2,
    items: [
      { object: { kind: 'Server', name: 'half' }, owner: { name: 'never-restored' }, result: 'OwnerMissing' },
      { object: { kind: 'Server', name: 'whole' }, owner: { name: 'restored-late' }, result: 'WouldLink' },
    ],
  });
  expect(condition(report, 'OwnersRelinked')).toMatchObject({ status: 'False', reason: 'NotAllLinked' });
  expect(ownersOf(await scene.find('whole'))).toEqual([]);
});

test('links that need an approval wait for it, at admission and in the sweeps of all other windows', async () => {
  const [early, prompt] = [
    await scene.backUp('slow', 'slow-owner'),
    await scene.backUp('quick', 'quick-owner'),
  ];
  await scene.open('careful', { requireApprovalToLink: true });
  await scene.restorer.create(DATACENTERS, datacenter('quick-owner'));
  expect(ownersOf(await scene.restorer.create(SERVERS, prompt))).toEqual([]);
  await scene.restorer.create(SERVERS, early);
  await scene.restorer.create(DATACENTERS, datacenter('slow-owner'));
  const careful = await scene.close('careful');
  expect(careful.status?.relink).toMatchObject({ found: 2, linked: 0, skipped: 2 });

  await scene.open('careless');
  const careless = await scene.close('careless');
  expect(careless.status?.relink).toMatchObject({ linked: 0 });
  for (const name of ['slow', 'quick']) expect(ownersOf(await scene.find(name))).toEqual([]);
});

describe('uids inside objects (`references[].uidPath`)', () => {
  beforeAll(async () => {
    await cluster.apply(...kindManifests, relinkRole, clusterAdmin('test-restorer', VELERO.user), uidsPolicy);
    await createNamespace(cluster, 'store');
    await seeInForce(cluster, 'application-uids');
  });

  const find = (name: string) => cluster.admin.get<Application>(APPLICATIONS, inShop(name));
  const uidIn = async (name: string) => (await find(name))?.spec.peer?.uid;
  const stale = (name: string, peer: string) =>
    application('shop', name, { peer: { namespace: 'store', name: peer, uid: 'of-the-backup' } });

  test('a stale uid is replaced at admission if the target exists, otherwise in the sweep', async () => {
    const tool = cluster.impersonate(VELERO);
    await scene.open('uids');
    const early = await tool.create<Application>(APPLICATIONS, stale('early', 'later'));
    expect(early.spec.peer?.uid).toBe('of-the-backup');
    const later = await tool.create<Application>(APPLICATIONS, application('store', 'later', {}));
    const prompt = await tool.create<Application>(APPLICATIONS, stale('prompt', 'later'));
    expect(prompt.spec.peer?.uid).toBe(later.metadata?.uid);
    // With the policy `update`, Velero writes the fields of the backup over existing objects.
    const again = await tool.patchMerge<Application>(APPLICATIONS, inShop('prompt'), {
      spec: { peer: { uid: 'of-the-backup' } },
    });
    expect(again.spec.peer?.uid).toBe(later.metadata?.uid);

    const report = await scene.close('uids');
    expect(report.status?.relink).toMatchObject({ found: 1, linked: 1, failed: 0, items: [] });
    expect(await uidIn('early')).toBe(later.metadata?.uid);
  });

  test('other users write the uid that they mean, and the sweep reports a uid that it cannot decide', async () => {
    await cluster.admin.create(APPLICATIONS, application('store', 'there', {}));
    const own = await cluster.admin.create<Application>(APPLICATIONS, stale('own', 'there'));
    expect(own.spec.peer?.uid).toBe('of-the-backup');
    const tool = cluster.impersonate(VELERO);
    await scene.open('leaving');
    const hold = { finalizers: ['test.example.com/hold'] };
    await tool.create(APPLICATIONS, stale('names-leaving', 'leaving'));
    await tool.create(APPLICATIONS, application('store', 'leaving', {}, hold));
    await cluster.admin.delete(APPLICATIONS, { namespace: 'store', name: 'leaving' });
    const report = await scene.close('leaving');
    expect(report.status?.relink?.items).toMatchObject([
      { object: { name: 'names-leaving' }, field: 'spec.peer.uid', result: 'OwnerTerminating' },
    ]);
    expect(await uidIn('names-leaving')).toBe('of-the-backup');
    await cluster.admin.patchMerge(
      APPLICATIONS,
      { namespace: 'store', name: 'leaving' },
      { metadata: { finalizers: null } },
    );
  });
});
