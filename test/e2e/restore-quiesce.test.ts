// suite: shared-plane, sandbox: long, slow, nightly
/** Workloads are scaled down while a window is open, and restored afterwards, even if leaders are killed. */
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { parseAllDocuments } from 'yaml';

import type { KubeObject } from '../../src/json/kube-object.ts';
import { deployments } from '../../src/kube/well-known.ts';
import { createNamespace, RESTORE_WINDOWS, startClusterFor, type Cluster } from '../support/cluster.ts';
import { startReplica, type Replica } from '../support/gatehouse.ts';
import { condition, type Conditioned, deployment } from '../support/objects.ts';
import { isNightly } from '../support/nightly.ts';
import { eventually, freePort } from '../support/processes.ts';
import { createSeeded } from '../support/seeded.ts';
import { seeCondition } from '../support/gatehouse-cluster.ts';

const COUNT = 20;
const ROUNDS = isNightly ? 12 : 2;
const labels = { pause: 'in-restores' };
const PREVIOUS = 'gatehouse.dev/quiesced';

interface Deployment extends KubeObject {
  readonly spec: { readonly replicas?: number };
}

let cluster: Cluster;
let replica: Replica;
let port: number;

beforeAll(async () => {
  port = await freePort();
  cluster = await startClusterFor(port);
  for (const namespace of ['ops', 'other']) await createNamespace(cluster, namespace);
  for (let n = 0; n < COUNT; n += 1)
    await cluster.admin.create(
      deployments,
      deployment(`app-${n}`, (n % 5) + 1, { namespace: 'ops', labels }),
    );
  await cluster.admin.create(deployments, deployment('far', 2, { namespace: 'other', labels }));
  await start();
});

afterAll(() => cluster.stop());

async function start(): Promise<void> {
  replica = await startReplica(cluster.plane, { name: 'one', port });
  await replica.whenReady();
}

async function kill(): Promise<void> {
  replica.program.kill('SIGKILL');
  await replica.program.exited;
}

async function open(name: string): Promise<void> {
  const spec = {
    principals: [{ user: 'system:serviceaccount:velero:velero' }],
    match: { namespaces: { include: ['ops'] } },
    expiresAt: new Date(Date.now() + 3_600_000).toISOString(),
    quiesce: [{ apiGroup: 'apps', resource: 'deployments', matchLabels: labels }],
  };
  const window: KubeObject & { readonly spec: object } = { metadata: { name }, spec };
  // It takes a moment until the API server reaches a new replica.
  await eventually(`${name} is created`, () => cluster.admin.create(RESTORE_WINDOWS, window));
}

const close = (name: string) =>
  cluster.admin.patchMerge(RESTORE_WINDOWS, { name }, { spec: { close: true } });

const seeQuiesced = (name: string, reason: string): Promise<Conditioned> =>
  seeCondition(cluster, RESTORE_WINDOWS, name, 'Quiesced', reason);

async function replicasIn(namespace: string): Promise<readonly (number | undefined)[]> {
  const { items } = await cluster.admin.listAll<Deployment>(deployments, { namespace });
  const byNumber = items.toSorted((a, b) => numberOf(a) - numberOf(b));
  return byNumber.map(({ spec }) => spec.replicas);
}
const numberOf = ({ metadata }: KubeObject) => Number(metadata?.name?.split('-')[1] ?? 0);

const WERE = Array.from({ length: COUNT }, (_, n) => (n % 5) + 1);
const PAUSED = WERE.map(() => 0);

test('a missing permission is a condition that prints the ClusterRole, and no webhook replica needs it', async () => {
  await open('drill');
  const message = condition(await seeQuiesced('drill', 'Forbidden'), 'Quiesced')?.message ?? '';
  expect(await replicasIn('ops')).toEqual(WERE);
  const manifests = parseAllDocuments(message.slice(message.indexOf('apiVersion'))).map(
    (document) => document.toJS() as KubeObject,
  );
  expect(manifests.map(({ kind }) => kind)).toEqual(['ClusterRole', 'ClusterRoleBinding']);
  await cluster.apply(...manifests);
  await seeQuiesced('drill', 'Paused');
  expect([await replicasIn('ops'), await replicasIn('other')]).toEqual([PAUSED, [2]]);

  await close('drill');
  await seeQuiesced('drill', 'Undone');
  expect(await replicasIn('ops')).toEqual(WERE);
});

test('a window that is deleted while it is open is undone before it goes', async () => {
  await open('deleted');
  await seeQuiesced('deleted', 'Paused');
  await cluster.admin.delete(RESTORE_WINDOWS, { name: 'deleted' });
  const isGone = async () => (await cluster.admin.get(RESTORE_WINDOWS, { name: 'deleted' })) === undefined;
  await eventually('the window is gone', isGone);
  expect(await replicasIn('ops')).toEqual(WERE);
});

test('kill -9 at any write loses no previous value', async () => {
  const random = createSeeded(7);
  for (let round = 0; round < ROUNDS; round += 1) {
    const name = `killed-${round}`;
    await open(name);
    await sleep(random.below(250));
    await kill();
    await start();
    await seeQuiesced(name, 'Paused');
    expect(await replicasIn('ops')).toEqual(PAUSED);
    await close(name);
    await sleep(2_000 + random.below(1_000));
    await kill();
    await start();
    await seeQuiesced(name, 'Undone');
    expect(await replicasIn('ops')).toEqual(WERE);
  }
  const { items } = await cluster.admin.listAll<Deployment>(deployments, { namespace: 'ops' });
  for (const { metadata } of items)
    expect([metadata?.annotations?.[PREVIOUS], metadata?.labels]).toEqual([undefined, labels]);
}, 300_000);
