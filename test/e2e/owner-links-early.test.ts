// suite: shared-plane, sandbox: long
/** Owners and uids of restored objects are linked while the window is open, in any order and in another namespace. */
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, expect, test } from 'vitest';

import { OWNER_RECORD_ANNOTATION } from '../../src/api/owner-record.ts';
import { clusterAdmin, DATACENTERS, SERVERS } from '../../src/cli/sandbox/tour-objects.ts';
import type { KubeObject } from '../../src/json/kube-object.ts';
import type { RestoreWindow } from '../../src/api/restore-window.ts';
import { createNamespace, RESTORE_WINDOWS, type Cluster } from '../support/cluster.ts';
import { seeInForce, startGatehouse } from '../support/gatehouse-cluster.ts';
import { datacenter, grant, restoreWindow } from '../support/objects.ts';
import {
  createOwnerScene,
  ownersOf,
  recordOf,
  type OwnerFlags,
  type OwnerScene,
} from '../support/owner-scene.ts';
import { eventually } from '../support/processes.ts';
import {
  application,
  APPLICATIONS,
  kindManifests,
  ownersPolicy,
  relinkRole,
  uidsPolicy,
  zone,
  ZONES,
  type Application,
} from '../support/restore-kinds.ts';
import { VELERO } from '../support/velero-client.ts';

let cluster: Cluster;
let scene: OwnerScene;

beforeAll(async () => {
  ({ cluster } = await startGatehouse());
  scene = await createOwnerScene(cluster);
  await cluster.apply(...kindManifests, relinkRole, clusterAdmin('test-restorer', VELERO.user));
  await cluster.apply(ownersPolicy, uidsPolicy);
  await createNamespace(cluster, 'copy');
  for (const name of ['application-owners', 'application-uids']) await seeInForce(cluster, name);
});

afterAll(() => cluster.stop());

const PATIENCE = { timeoutMs: 60_000 };
/** Longer than a pass waits for its next one, and for an object to be left alone. */
const PASSES_MS = 18_000;
/** Longer than the garbage collector takes to delete an object with a wrong owner. */
const SURVIVES_MS = 4_000;

const find = (namespace: string, name: string) =>
  cluster.admin.get<Application>(APPLICATIONS, { namespace, name });
const windowNamed = (name: string) => cluster.admin.get<RestoreWindow>(RESTORE_WINDOWS, { name });
const seeLinked = (what: string, read: () => Promise<KubeObject | undefined>) =>
  eventually(`${what} is linked`, async () => ownersOf(await read()).length > 0, PATIENCE);

/** As in a backup of another cluster: an Application with a record of an owner that had another uid there. */
const recorded = (
  namespace: string,
  name: string,
  kind: 'Application' | 'Zone',
  owner: string,
  spec = {},
  flags: OwnerFlags = { controller: true },
) => {
  const ref = { apiVersion: 'restore.example.com/v1', kind, name: owner, uid: `old-${owner}` };
  const record = JSON.stringify({ v: 1, self: name, refs: [{ ...ref, ...flags }] });
  return application(namespace, name, spec, { annotations: { [OWNER_RECORD_ANNOTATION]: record } });
};

test('a child is linked while the window is open, as soon as its owner exists, and the report counts it once', async () => {
  const backup = await scene.backUp('early', 'late', { controller: true, blockOwnerDeletion: true });
  await scene.open('open');
  await scene.restorer.create(SERVERS, backup);
  await sleep(PASSES_MS);
  expect(ownersOf(await scene.find('early'))).toEqual([]);
  const owner = await scene.restorer.create(DATACENTERS, datacenter('late'));
  await seeLinked('the child', () => scene.find('early'));
  expect(ownersOf(await scene.find('early'))[0]?.uid).toBe(owner.metadata?.uid);
  await eventually('the link is counted', async () => {
    const { phase, relink } = (await windowNamed('open'))?.status ?? {};
    return phase === 'Open' && relink?.linked === 1;
  });
  await sleep(SURVIVES_MS);
  expect(ownersOf(await scene.find('early'))).toHaveLength(1);
  const report = await scene.close('open');
  expect(report.status?.relink).toMatchObject({ found: 1, linked: 1, skipped: 0, failed: 0, items: [] });
});

test('a chain is linked from its end to its beginning in another namespace, and a cluster-scoped owner as it is', async () => {
  const tool = cluster.impersonate(VELERO);
  // The originals exist: nothing may lead from the copy to them.
  const original = await cluster.admin.create(APPLICATIONS, application('shop', 'a', {}));
  await scene.open('mapped');
  const peer = { namespace: 'copy', name: 'a', uid: 'old-a' };
  const nextTo = { apiVersion: 'restore.example.com/v1', kind: 'Application', name: 'a' };
  const foreign = { ...nextTo, namespace: 'shop', uid: 'of-another-namespace' };
  const links = { one: { owner: 'old-b', refs: [{ ...nextTo, uid: 'old-a' }, foreign] } };
  await tool.create(APPLICATIONS, recorded('copy', 'c', 'Application', 'b', { peer, links }));
  await tool.create(APPLICATIONS, recorded('copy', 'b', 'Application', 'a'));
  await tool.create(APPLICATIONS, recorded('copy', 'a', 'Zone', 'z'));
  const top = await tool.create(ZONES, zone('z'));
  for (const name of ['a', 'b', 'c']) await seeLinked(name, () => find('copy', name));
  const [a, b, c] = [await find('copy', 'a'), await find('copy', 'b'), await find('copy', 'c')];
  expect([a, b, c].map((one) => ownersOf(one)[0]?.uid)).toEqual(
    [top, a, b].map((owner) => owner?.metadata?.uid),
  );
  expect(a?.metadata?.uid).not.toBe(original.metadata?.uid);
  expect(c?.spec.peer?.uid).toBe(a?.metadata?.uid);
  const now = { owner: b?.metadata?.uid, refs: [{ ...nextTo, uid: a?.metadata?.uid }, foreign] };
  expect(c?.spec.links).toEqual({ one: now });
  // Its owner exists, but a field has to be written before the record of the owner changes.
  const late = recorded('copy', 'd', 'Application', 'a', { links: { two: { owner: 'old-a' } } });
  expect(ownersOf(await tool.create(APPLICATIONS, late))).toEqual([]);
  await seeLinked('d', () => find('copy', 'd'));
  expect((await find('copy', 'd'))?.spec.links).toEqual({ two: { owner: a?.metadata?.uid } });
  expect((await windowNamed('mapped'))?.status?.phase).toBe('Open');
  const report = await scene.close('mapped');
  expect(report.status?.relink?.items).toMatchObject([
    { object: { name: 'c' }, field: 'spec.links.one.refs[1].uid', result: 'OwnerAmbiguous' },
  ]);
  await sleep(SURVIVES_MS);
  expect(ownersOf(await find('copy', 'c'))).toHaveLength(1);
});

test('a child that is linked early is deleted with its owner, and restored again with the next one', async () => {
  const tool = cluster.impersonate(VELERO);
  await scene.open('twice');
  const child = recorded('shop', 'child', 'Application', 'owner');
  await tool.create(APPLICATIONS, child);
  await tool.create(APPLICATIONS, application('shop', 'owner', {}));
  await seeLinked('the child', () => find('shop', 'child'));
  await tool.delete(APPLICATIONS, { namespace: 'shop', name: 'owner' });
  await eventually('the child is gone', async () => (await find('shop', 'child')) === undefined, PATIENCE);
  await tool.create(APPLICATIONS, child);
  const again = await tool.create<Application>(APPLICATIONS, application('shop', 'owner', {}));
  await seeLinked('the child', () => find('shop', 'child'));
  expect(ownersOf(await find('shop', 'child'))[0]?.uid).toBe(again.metadata?.uid);
  await scene.close('twice');
});

test('a user who may restore only in a namespace forges an owner, but the child does not block its deletion', async () => {
  const windows = { apiGroups: ['gatehouse.dev'], resources: ['restorewindows'] };
  const applications = { apiGroups: ['restore.example.com'], resources: ['applications'] };
  await cluster.apply(
    ...grant('carol', ['carol'], [{ ...windows, verbs: ['create'] }]),
    ...grant(
      'carol',
      ['carol'],
      [
        { ...windows, verbs: ['open'] },
        { ...applications, verbs: ['create'] },
      ],
      'copy',
    ),
  );
  const carol = cluster.impersonate({ user: 'carol', groups: ['system:authenticated'] });
  const match = { namespaces: { include: ['copy'] } };
  await carol.create(RESTORE_WINDOWS, restoreWindow('carols', { principals: [{ user: 'carol' }], match }));
  await eventually('it is open', async () => (await windowNamed('carols'))?.status?.phase === 'Open');
  const flags = { controller: true, blockOwnerDeletion: true };
  await carol.create(APPLICATIONS, recorded('copy', 'forged', 'Zone', 'foreign', {}, flags));
  await cluster.admin.create(ZONES, zone('foreign'));
  await seeLinked('the child', () => find('copy', 'forged'));
  expect(ownersOf(await find('copy', 'forged'))).toMatchObject([
    { name: 'foreign', blockOwnerDeletion: false },
  ]);
  const report = await scene.close('carols');
  expect(report.status?.relink).toMatchObject({
    linked: 1,
    items: [{ result: 'Linked', message: expect.stringContaining('not for the whole cluster') as string }],
  });
});

test('no early link for a record that a user forges, nor for an object of a window that waits for an approval', async () => {
  const backup = await scene.backUp('held', 'holder');
  await scene.open('lax');
  await scene.open('strict', { requireApprovalToLink: true });
  await scene.restorer.create(SERVERS, backup);
  const forged = await scene.alice.create(SERVERS, {
    ...backup,
    metadata: { ...backup.metadata, name: 'forged' },
  });
  expect(recordOf(forged)).toBeUndefined();
  await cluster.admin.create(DATACENTERS, datacenter('holder'));
  await sleep(PASSES_MS);
  for (const name of ['held', 'forged']) expect(ownersOf(await scene.find(name))).toEqual([]);
  expect((await windowNamed('lax'))?.status?.relink).toBeUndefined();
  await scene.close('strict');
  await scene.close('lax');
});
