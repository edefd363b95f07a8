/** Restores by a real Velero while something else happens: another restore, a controller, the end of a process. */
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, expect, test } from 'vitest';

import type { QuiesceRule } from '../../src/api/quiesce.ts';
import { permissionsFor } from '../../src/runtime/restores/quiesce/quiesce.ts';
import { RESTORE_WINDOWS } from '../support/cluster.ts';
import { USERS } from '../support/control-plane-users.ts';
import { parseManifests } from '../support/kustomization.ts';
import { restoreWindow, type Conditioned } from '../support/objects.ts';
import { eventually } from '../support/processes.ts';
import { APPLICATIONS } from '../support/restore-kinds.ts';
import { brokenIn, linesOf } from '../support/restore-oracle.ts';
import { isVerified, seeReportOf, seeWindowOf } from '../support/restore-scene.ts';
import { startPruner } from '../support/real-velero/pruner.ts';
import { beginRestore, endOfRestore, restore } from '../support/real-velero/server.ts';
import {
  clearScene,
  loseScene,
  lostOf,
  readScene,
  sceneObjects,
  type Scene,
  type Snapshot,
} from '../support/real-velero/scenes.ts';
import {
  backUpScene,
  detectRestores,
  enforcePolicies,
  startStage,
  type Stage,
} from '../support/real-velero/stage.ts';
import { VELERO } from '../support/velero-client.ts';
import { seeCondition } from '../support/gatehouse-cluster.ts';

/** Velero needs some seconds for them. */
const COUNT = 100;
/** A process ends when so many are restored. */
const MIDWAY = 20;
const DOWN_MS = 2_000;

function sceneOf(name: string, count: number): Scene {
  const { app, zone } = sceneObjects(name);
  const names = Array.from({ length: count }, (_, index) => `app-${index}`);
  const scene: Scene = {
    name,
    objects: [
      zone('red'),
      ...names.map((one) => app(one, { zone: `${name}-red` }, { labels: { part: 'yes' } })),
    ],
    lose: (cluster) => clearScene(cluster, scene),
    restores: [{}],
  };
  return scene;
}

const crowd = sceneOf('crowd', COUNT);
/** The second one leaves its Zone out. */
const twins: readonly Scene[] = [
  sceneOf('twin-a', 3),
  {
    ...sceneOf('twin-b', 3),
    restores: [{ labelSelector: { matchLabels: { part: 'yes' } } }],
    isRestored: ({ kind }) => kind === APPLICATIONS.kind,
  },
];

let stage: Stage;
const backups = new Map<string, Snapshot>();

beforeAll(async () => {
  stage = await startStage();
  await enforcePolicies(stage.cluster);
  await detectRestores(stage.cluster);
  for (const scene of [crowd, ...twins]) {
    backups.set(scene.name, (await backUpScene(stage, scene)).before);
    await loseScene(stage.cluster, scene);
  }
});

afterAll(() => stage.stop());

/** Compares the report on a Restore with what is broken now. @returns what is lost */
async function compare(restored: string, scene: Scene): Promise<readonly string[]> {
  const { cluster } = stage;
  const { status } = await seeReportOf(cluster, restored);
  const broken = await brokenIn(cluster.admin, new Set([scene.name]));
  const { total = 0, items = [] } = status?.violations ?? {};
  expect(total).toBe(broken.length);
  if (total === items.length) expect(linesOf(items, new Set([scene.name]))).toEqual(broken);
  return lostOf(backups.get(scene.name) ?? [], await readScene(cluster, scene), {});
}

/** Begins a restore of the crowd, and returns in the middle of it. */
async function beginCrowd(name: string): Promise<void> {
  await loseScene(stage.cluster, crowd);
  await beginRestore(stage.velero, name, crowd.name);
  await eventually(`${name} is in the middle`, async () => (await restoredApps()) >= MIDWAY, { everyMs: 20 });
  expect(await restoredApps()).toBeLessThan(COUNT);
}

const restoredApps = async (): Promise<number> =>
  (await stage.cluster.admin.listAll(APPLICATIONS, { namespace: crowd.name, metadataOnly: true })).items
    .length;

test('two concurrent restores: each report has only the violations from its restore', async () => {
  await Promise.all(twins.map(({ name, restores }) => beginRestore(stage.velero, name, name, restores[0])));
  for (const scene of twins) {
    expect(await endOfRestore(stage.velero, scene.name)).toMatchObject({ errors: [] });
    expect(await compare(scene.name, scene)).toEqual([]);
    await loseScene(stage.cluster, scene);
  }
});

test('Velero is killed midway: the report has what it left, and the next restore completes it', async () => {
  await beginCrowd('killed');
  await stage.velero.kill();
  await stage.velero.start();
  const apps = await restoredApps();
  expect(await endOfRestore(stage.velero, 'killed')).toMatchObject({ phase: 'Failed' });
  expect(await compare('killed', crowd)).toHaveLength(COUNT + 1 - apps);
  expect(await restore(stage.velero, 'killed-again', crowd.name)).toMatchObject({ errors: [] });
  expect(await compare('killed-again', crowd)).toEqual([]);
  await seeWindowOf(stage.cluster, 'killed', 'the first report is clean', isVerified);
});

test('the webhook is killed midway: only managedFields are lost', async () => {
  await beginCrowd('no-webhook');
  await stage.kill('webhook');
  await sleep(DOWN_MS);
  await stage.start('webhook');
  const { errors } = await endOfRestore(stage.velero, 'no-webhook');
  // An object that Velero could not create has `error restoring`.
  for (const error of errors) expect(error).toMatch(/^Internal error occurred: failed calling webhook/);
  expect(await compare('no-webhook', crowd)).toEqual([]);
});

test('the controllers are killed midway: nothing is lost', async () => {
  await beginCrowd('no-controllers');
  await stage.kill('controllers');
  await sleep(DOWN_MS);
  await stage.start('controllers');
  expect(await endOfRestore(stage.velero, 'no-controllers')).toMatchObject({ errors: [] });
  expect(await compare('no-controllers', crowd)).toEqual([]);
});

test('a controller that deletes what it does not expect: objects are lost, and none if a window pauses it', async () => {
  const { cluster } = stage;
  await loseScene(cluster, crowd);
  const pruner = await startPruner(cluster, crowd.name);
  try {
    await pruner.untilPods(1);
    await restore(stage.velero, 'unpaused', crowd.name);
    expect(await compare('unpaused', crowd)).not.toEqual([]);

    await loseScene(cluster, crowd);
    await pauseFor('before', pruner.quiesce);
    await pruner.untilPods(0);
    expect(await restore(stage.velero, 'paused', crowd.name)).toMatchObject({ errors: [] });
    await cluster.admin.patchMerge(RESTORE_WINDOWS, { name: 'before' }, { spec: { close: true } });
    await seeQuiesced('before', 'Undone');
    expect(await pruner.replicas()).toBe(1);
    await pruner.untilPods(1);
    expect(await compare('paused', crowd)).toEqual([]);
  } finally {
    await pruner.stop();
  }
});

/** Opens a window that pauses controllers, as the documentation says: before the restore. */
async function pauseFor(name: string, rule: QuiesceRule): Promise<void> {
  const { cluster } = stage;
  const permissions = permissionsFor([{ group: 'apps', resource: 'deployments' }], USERS.controllers.name);
  await cluster.apply(...parseManifests(permissions.slice(permissions.indexOf('apiVersion'))));
  const principals = [{ user: VELERO.user }];
  await cluster.admin.create(RESTORE_WINDOWS, restoreWindow(name, { principals, quiesce: [rule] }));
  await seeQuiesced(name, 'Paused');
}

const seeQuiesced = (name: string, reason: string): Promise<Conditioned> =>
  seeCondition(stage.cluster, RESTORE_WINDOWS, name, 'Quiesced', reason);
