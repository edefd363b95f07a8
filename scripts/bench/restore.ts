/**
 * Measures the restore of 10,000 objects: `npm run bench:restore`. With `-- --check` it fails when a target is missed.
 * API server, Gatehouse and the simulated Velero share one machine, so other load distorts the times.
 */
import { parseArgs } from 'node:util';

import type { RestoreWindow } from '../../src/api/restore-window.ts';
import { RESTORE_WINDOWS } from '../../src/runtime/resources.ts';
import { eventually } from '../../test/support/processes.ts';
import { createVelero, type Velero } from '../../test/support/velero.ts';
import { VELERO, type BackupObject, type Sent } from '../../test/support/velero-client.ts';
import { APPLICATIONS } from '../../test/support/restore-kinds.ts';
import { type ClusterProcess, startClusterProcess } from './cluster-process.ts';
import { CONTAINER_HEAP } from './child.ts';
import { atMost, type Figure, percentile, runBenchmark } from './figures.ts';
import { backupOf, enforcePolicy, inFloor, prepareRestores } from './restore-scene.ts';
import { mostOf } from './samples.ts';
import { mebibytes, whole } from './table.ts';

const OBJECTS = 10_000;
/** Each batch is also restored into namespaces without a policy: this is the floor. */
const BATCH = 1_000;
const LONGEST_ADDED_MS = 10;
const LONGEST_SWEEP_MS = 60_000;
const MOST_BYTES = 300 * 2 ** 20;

const window: RestoreWindow = {
  apiVersion: 'gatehouse.dev/v1alpha1',
  kind: 'RestoreWindow',
  metadata: { name: 'bench' },
  spec: {
    principals: [{ user: VELERO.user }],
    expiresAt: new Date(Date.now() + 3_600_000).toISOString(),
  },
};

const milliseconds = (value: number): string => `${value.toFixed(1)} ms`;

const { values: flags } = parseArgs({ options: { check: { type: 'boolean', default: false } } });

async function measure(): Promise<readonly Figure[]> {
  const cluster = await startClusterProcess('kube-apiserver');
  const { token, ...endpoint } = cluster.endpoint;
  const velero = createVelero({ ...endpoint, token: () => token });
  try {
    await prepareRestores(cluster);
    const replica = await cluster.startReplica('one', CONTAINER_HEAP);
    await replica.whenReady(60_000);
    await enforcePolicy(cluster);
    const memory = mostOf(replica);
    await openWindow(cluster);
    const batches = await restoreInBatches(velero, backupOf(OBJECTS));
    const { status } = await closeWindow(cluster);
    const { rss: most } = await memory.stop();
    const calls = await callsBetween(cluster, status?.lastSweep?.startedAt, status?.lastSweep?.finishedAt);
    await replica.program.stop(30_000);
    return [
      ...latency(cluster.version, batches),
      ...sweepFigures(status, calls),
      {
        what: 'memory (RSS) of the leader, the most during restore and sweep',
        measured: mebibytes(most),
        target: atMost(most, MOST_BYTES, mebibytes),
      },
    ];
  } finally {
    await velero.stop();
    await cluster.stop();
  }
}

interface Batch {
  readonly floor: readonly Sent[];
  readonly restored: readonly Sent[];
}

/** The batches alternate with their floors, so that a burst of other load spoils only one batch. */
async function restoreInBatches(velero: Velero, backup: readonly BackupObject[]): Promise<readonly Batch[]> {
  const isGoverned = ({ kind }: BackupObject) => kind === APPLICATIONS.kind;
  const governed = backup.filter(isGoverned);
  const restoreBatch = async (first: number): Promise<Batch> => {
    const objects = governed.slice(first, first + BATCH);
    const floor = objects.map(inFloor);
    return {
      floor: await writes(velero, () => velero.restore({ name: `floor-${first}`, backup: floor })),
      restored: await writes(velero, () => velero.restore({ name: `bench-${first}`, backup: objects })),
    };
  };
  const batches: Batch[] = [];
  for (let first = 0; first < governed.length; first += BATCH) batches.push(await restoreBatch(first));
  const rest = backup.filter((object) => !isGoverned(object));
  await writes(velero, () => velero.restore({ name: 'bench-rest', backup: rest }));
  return batches;
}

/** The creations and the patches that follow them, in order. @throws Error when the API server rejects an object */
async function writes(
  velero: Velero,
  restore: () => ReturnType<Velero['restore']>,
): Promise<readonly Sent[]> {
  const first = velero.client.sent().length;
  const { errors } = await restore();
  if (errors.length > 0) throw new Error(`${errors.length} objects were refused: ${errors[0] ?? ''}`);
  return velero.client
    .sent()
    .slice(first)
    .filter(({ method, path }) => method !== 'GET' && path.includes('/applications'));
}

async function openWindow({ client }: ClusterProcess): Promise<void> {
  await client.create(RESTORE_WINDOWS, window);
  await eventually('the window is open', async () => {
    const found = await client.get<RestoreWindow>(RESTORE_WINDOWS, { name: 'bench' });
    return found?.status?.phase === 'Open';
  });
}

async function closeWindow({ client }: ClusterProcess): Promise<RestoreWindow> {
  await client.patchMerge(RESTORE_WINDOWS, { name: 'bench' }, { spec: { close: true } });
  return await eventually(
    'the final sweep',
    async () => {
      const found = await client.get<RestoreWindow>(RESTORE_WINDOWS, { name: 'bench' });
      return found?.status?.lastSweep?.interim === false ? found : undefined;
    },
    { timeoutMs: 300_000, everyMs: 250 },
  );
}

function latency(version: string, batches: readonly Batch[]): readonly Figure[] {
  return (['POST', 'PATCH'] as const).flatMap((method) => {
    const what = method === 'POST' ? 'creates' : 'patches of managedFields';
    const timesOf = (all: readonly Sent[]) =>
      all.filter((one) => one.method === method).map((one) => one.milliseconds);
    const at = (batch: Batch, where: keyof Batch, share: number) => percentile(timesOf(batch[where]), share);
    const typical = (valueOf: (batch: Batch) => number) => percentile(batches.map(valueOf), 0.5);
    const both = (where: keyof Batch) =>
      [0.5, 0.99].map((share) => milliseconds(typical((batch) => at(batch, where, share)))).join(', ');
    const addedAt = (share: number) =>
      typical((batch) => at(batch, 'restored', share) - at(batch, 'floor', share));
    const added = addedAt(0.99);
    const count = batches.flatMap(({ restored }) => timesOf(restored)).length;
    return [
      {
        what: `${whole(count)} ${what} in a window, kube-apiserver ${version}: added at p99`,
        measured: milliseconds(added),
        target: atMost(added, LONGEST_ADDED_MS, milliseconds),
      },
      { what: '  added at p50', measured: milliseconds(addedAt(0.5)) },
      { what: '  p50 and p99 in the window', measured: both('restored') },
      { what: '  p50 and p99 without a policy', measured: both('floor') },
    ];
  });
}

function sweepFigures(status: RestoreWindow['status'], calls: number): readonly Figure[] {
  const { startedAt = '', finishedAt = '', objectsScanned = 0 } = status?.lastSweep ?? {};
  const took = Date.parse(finishedAt) - Date.parse(startedAt);
  const violations = status?.violations?.total ?? 0;
  return [
    {
      what: `sweep of ${whole(objectsScanned)} objects, ${violations} violations`,
      measured: `${(took / 1_000).toFixed(2)} s`,
      target: atMost(took, LONGEST_SWEEP_MS, (ms) => `${ms / 1_000} s`),
    },
    { what: '  requests to the API server', measured: whole(calls) },
  ];
}

/** The number of requests of Gatehouse that ended in this period, without Lease requests and watches. */
async function callsBetween(cluster: ClusterProcess, from = '', to = ''): Promise<number> {
  const events = await cluster.audit();
  return events.filter(({ stageTimestamp, verb, objectRef }) => {
    const at = Date.parse(stageTimestamp);
    return (
      at >= Date.parse(from) && at <= Date.parse(to) && verb !== 'watch' && objectRef?.resource !== 'leases'
    );
  }).length;
}

await runBenchmark(flags.check, measure);
