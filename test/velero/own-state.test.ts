/** A backup of the whole cluster, with Gatehouse's namespace, kinds and policies, restored over itself by a real Velero. */
import { afterAll, beforeAll, expect, test } from 'vitest';

import type { KubeObject } from '../../src/json/kube-object.ts';
import { systemClock } from '../../src/kube/clock.ts';
import { createDiscovery } from '../../src/kube/discovery.ts';
import type { Resource } from '../../src/kube/object.ts';
import {
  customResourceDefinitions,
  mutatingWebhookConfigurations,
  secrets,
  validatingWebhookConfigurations,
} from '../../src/kube/well-known.ts';
import { ADMISSION_POLICIES, AUTHORITY, type Cluster } from '../support/cluster.ts';
import { application } from '../support/restore-kinds.ts';
import { seeReportOf, verdictOf } from '../support/restore-scene.ts';
import { rehearsed } from '../support/real-velero/rehearse.ts';
import { backUp, restore, type RestoreResult } from '../support/real-velero/server.ts';
import {
  createScene,
  loseScene,
  lostOf,
  readScene,
  sceneObjects,
  type Scene,
  type Snapshot,
} from '../support/real-velero/scenes.ts';
import { detectRestores, enforcePolicies, startStage, type Stage } from '../support/real-velero/stage.ts';
import { VELERO } from '../support/velero-client.ts';

const { app, zone } = sceneObjects('shop');
const shop: Scene = {
  name: 'shop',
  objects: [zone('red'), app('a', { zone: 'shop-red' }), app('b', { zone: 'shop-red', parent: 'a' })],
  restores: [{ existingResourcePolicy: 'update' }],
};

let stage: Stage;
let cluster: Cluster;
let before: Snapshot;
let own: readonly string[];
let predicted: readonly string[];
let result: RestoreResult;

beforeAll(async () => {
  stage = await startStage();
  ({ cluster } = stage);
  await enforcePolicies(cluster);
  await detectRestores(cluster);
  await createScene(cluster, shop);
  before = await readScene(cluster, shop);
  const archive = await backUp(stage.velero, 'everything', {
    includedNamespaces: ['*'],
    includeClusterResources: true,
  });
  await loseScene(cluster, shop);
  own = await ownState();
  predicted = await rehearsed(cluster, archive, { existingResourcePolicy: 'update' });
  result = await restore(stage.velero, 'everything', 'everything', shop.restores[0]);
});

afterAll(() => stage.stop());

/** What decides about requests and trust, without what each write changes. */
async function ownState(): Promise<readonly string[]> {
  const lists = await Promise.all(
    [
      ADMISSION_POLICIES,
      customResourceDefinitions,
      mutatingWebhookConfigurations,
      validatingWebhookConfigurations,
    ].map((kind) => cluster.admin.listAll<Decisive>(kind)),
  );
  const authority = await cluster.admin.get<Decisive>(secrets, AUTHORITY);
  return [...lists.flatMap(({ items }) => items), ...(authority === undefined ? [] : [authority])].map(
    ({ metadata, spec, webhooks, data }) =>
      JSON.stringify([metadata?.name, metadata?.uid, spec, webhooks, data]),
  );
}

interface Decisive extends KubeObject {
  readonly spec?: unknown;
  readonly webhooks?: unknown;
  readonly data?: unknown;
}

test('nothing is lost, and policies, webhooks and the authority do not change', async () => {
  const { status } = await seeReportOf(cluster, 'everything');
  expect(lostOf(before, await readScene(cluster, shop), {})).toEqual([]);
  expect(status?.violations?.total ?? 0).toBe(0);
  expect(await ownState()).toEqual(own);
});

test('checks are enforced again', async () => {
  const broken = application('shop', 'late', { zone: 'gone' });
  for (const client of [cluster.admin, cluster.impersonate(VELERO)])
    expect(await verdictOf(client, broken, { dryRun: true })).toContain('spec.zone');
});

test('Velero lacks permission to write policies', async () => {
  const { items } = await cluster.admin.listAll(ADMISSION_POLICIES);
  expect(result.phase).toBe('PartiallyFailed');
  expect(result.errors).toHaveLength(items.length);
  for (const error of result.errors) expect(error).toContain('a restorer may not write');
});

test('V5: the rehearsal predicts these errors', async () => {
  const { items } = await cluster.admin.listAll(ADMISSION_POLICIES);
  const names = items.map(
    ({ metadata }) => `Refused admissionpolicies.gatehouse.dev ${metadata?.name ?? ''}`,
  );
  expect(predicted).toEqual(names.toSorted());
});

test('V4: the rehearsal predicts nothing else, also not for the ClusterTrustBundle of Gatehouse', async () => {
  await trustBundle();
  expect(predicted.filter((line) => !line.includes('.gatehouse.dev '))).toEqual([]);
});

test('V4: the ClusterTrustBundle of Gatehouse is not in backups', async () => {
  expect((await trustBundle()).metadata?.labels).toMatchObject({ 'velero.io/exclude-from-backup': 'true' });
});

async function trustBundle(): Promise<KubeObject> {
  const wanted = { group: 'certificates.k8s.io', resource: 'clustertrustbundles' };
  const kind: Resource | undefined = await createDiscovery(cluster.adminRest, systemClock).resolve(wanted);
  if (kind === undefined) throw new Error('this API server serves no ClusterTrustBundles');
  return await cluster.see('the bundle', kind, { name: 'gatehouse.dev:ca:bundle' });
}
