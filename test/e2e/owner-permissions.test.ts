// suite: own-plane, sandbox: no (it does not run admission plugins)
/**
 * Owner references where the API server checks the permission to set them (OwnerReferencesPermissionEnforcement), as on
 * OpenShift.
 */
import { afterAll, beforeAll, expect, test } from 'vitest';

import { DATACENTERS, SERVERS } from '../../src/cli/sandbox/tour-objects.ts';
import type { Cluster } from '../support/cluster.ts';
import { startGatehouse } from '../support/gatehouse-cluster.ts';
import { condition, datacenter } from '../support/objects.ts';
import { createOwnerScene, ownersOf, recordOf, type OwnerScene } from '../support/owner-scene.ts';

let cluster: Cluster | undefined;
let scene: OwnerScene;

beforeAll(async () => {
  ({ cluster } = await startGatehouse({ admissionPlugins: ['OwnerReferencesPermissionEnforcement'] }));
  scene = await createOwnerScene(cluster, { finalizers: false });
});

afterAll(() => cluster?.stop());

test('G8: without the permission to update finalizers, owners are linked without blockOwnerDeletion, and the report shows that', async () => {
  const backup = await scene.backUp('child', 'owner', { blockOwnerDeletion: true });
  await scene.open('g8');
  await scene.restorer.create(SERVERS, backup);
  const owner = await scene.restorer.create(DATACENTERS, datacenter('owner'));
  const report = await scene.close('g8');
  const child = await scene.find('child');
  expect(ownersOf(child)).toMatchObject([{ uid: owner.metadata?.uid, blockOwnerDeletion: false }]);
  expect(recordOf(child)).toContain('"blockOwnerDeletion":false');
  expect(report.status?.relink).toMatchObject({
    linked: 1,
    failed: 0,
    items: [{ result: 'Linked', message: expect.stringContaining('blockOwnerDeletion') as string }],
  });
  expect(condition(report, 'OwnersRelinked')?.status).toBe('True');
});

test('at admission, the API server checks the permissions of the restorer, which are sufficient', async () => {
  const backup = await scene.backUp('prompt', 'present', { blockOwnerDeletion: true });
  await scene.open('prompt');
  await scene.restorer.create(DATACENTERS, datacenter('present'));
  const child = await scene.restorer.create(SERVERS, backup);
  expect(ownersOf(child)).toMatchObject([{ name: 'present', blockOwnerDeletion: true }]);
  await scene.close('prompt');
});
