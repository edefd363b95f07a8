// suite: shared-plane, sandbox: long
/** Uids inside objects (`references[].uidPath`) are current after a restore, whatever its order. */
import { afterAll, beforeAll, expect, test } from 'vitest';

import { clusterAdmin } from '../../src/cli/sandbox/tour-objects.ts';
import { RESTORE_WINDOWS } from '../../src/runtime/resources.ts';

import { createNamespace, type Cluster } from '../support/cluster.ts';
import { seeInForce, startGatehouse } from '../support/gatehouse-cluster.ts';
import type { SweptWindow } from '../support/owner-scene.ts';
import {
  application,
  APPLICATIONS,
  kindManifests,
  relinkRole,
  uidsPolicy,
  type Application,
} from '../support/restore-kinds.ts';

const USER = 'system:serviceaccount:velero:velero';
const GROUPS = ['system:serviceaccounts', 'system:serviceaccounts:velero', 'system:authenticated'];

let cluster: Cluster;

beforeAll(async () => {
  ({ cluster } = await startGatehouse());
  await cluster.apply(...kindManifests, relinkRole, clusterAdmin('test-restorer', USER), uidsPolicy);
  await createNamespace(cluster, 'shop');
  await createNamespace(cluster, 'store');
  await seeInForce(cluster, 'application-uids');
});

afterAll(() => cluster.stop());

const find = (name: string) => cluster.admin.get<Application>(APPLICATIONS, { namespace: 'shop', name });
const uidIn = async (name: string) => (await find(name))?.spec.peer?.uid;
const stale = (name: string, peer: string) =>
  application('shop', name, { peer: { namespace: 'store', name: peer, uid: 'of-the-backup' } });

async function open(name: string): Promise<void> {
  const expiresAt = new Date(Date.now() + 3_600_000).toISOString();
  const window = { metadata: { name }, spec: { principals: [{ user: USER }], expiresAt } };
  await cluster.admin.create(RESTORE_WINDOWS, window);
  await cluster.see<SweptWindow>(name, RESTORE_WINDOWS, { name }, ({ status }) => status?.phase === 'Open');
}

async function close(name: string): Promise<SweptWindow> {
  await cluster.admin.patchMerge(RESTORE_WINDOWS, { name }, { spec: { close: true } });
  const isDone = ({ status }: SweptWindow) => status?.phase === 'Completed';
  return await cluster.see<SweptWindow>(`${name} is done`, RESTORE_WINDOWS, { name }, isDone, 20_000);
}

test('a stale uid is replaced at admission if the target exists, otherwise in the sweep', async () => {
  const restorer = cluster.impersonate({ user: USER, groups: GROUPS });
  await open('uids');
  const early = await restorer.create<Application>(APPLICATIONS, stale('early', 'later'));
  expect(early.spec.peer?.uid).toBe('of-the-backup');
  const later = await restorer.create<Application>(APPLICATIONS, application('store', 'later', {}));
  const prompt = await restorer.create<Application>(APPLICATIONS, stale('prompt', 'later'));
  expect(prompt.spec.peer?.uid).toBe(later.metadata?.uid);
  // With the policy `update`, Velero writes the fields of the backup over existing objects.
  const again = await restorer.patchMerge<Application>(
    APPLICATIONS,
    { namespace: 'shop', name: 'prompt' },
    { spec: { peer: { uid: 'of-the-backup' } } },
  );
  expect(again.spec.peer?.uid).toBe(later.metadata?.uid);

  const report = await close('uids');
  expect(report.status?.relink).toMatchObject({ found: 1, linked: 1, failed: 0, items: [] });
  expect(await uidIn('early')).toBe(later.metadata?.uid);
});

test('other users write the uid that they mean, and the sweep reports what it may not decide', async () => {
  await cluster.admin.create(APPLICATIONS, application('store', 'there', {}));
  const own = await cluster.admin.create<Application>(APPLICATIONS, stale('own', 'there'));
  expect(own.spec.peer?.uid).toBe('of-the-backup');
  const restorer = cluster.impersonate({ user: USER, groups: GROUPS });
  await open('leaving');
  const hold = { finalizers: ['test.example.com/hold'] };
  await restorer.create(APPLICATIONS, stale('names-leaving', 'leaving'));
  await restorer.create(APPLICATIONS, application('store', 'leaving', {}, hold));
  await cluster.admin.delete(APPLICATIONS, { namespace: 'store', name: 'leaving' });
  const report = await close('leaving');
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
