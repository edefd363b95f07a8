/** The controllers of users on the sandbox: `npm run bench:controllers`. `-- --check` fails when a target is missed. */
import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs, promisify } from 'node:util';

import { parseAllDocuments } from 'yaml';

import { applyManifests } from '../../src/cli/deploy-manifests.ts';
import { createDiscovery } from '../../src/kube/discovery.ts';
import { systemClock } from '../../src/kube/clock.ts';
import type { KubeObject } from '../../src/json/kube-object.ts';
import type { Resource } from '../../src/kube/object.ts';
import { ANY, definitionOf, versionOf } from '../../test/support/definitions.ts';
import type { Replica } from '../../test/support/gatehouse.ts';
import { MAIN } from '../../test/support/main-module.ts';
import { eventually } from '../../test/support/processes.ts';
import { startClusterProcess, type ClusterProcess } from './cluster-process.ts';
import { CONTAINER_HEAP } from './container-heap.ts';
import { atMost, percentile, runBenchmark, type Figure } from './figures.ts';
import { times } from './objects.ts';
import { sampleOf } from './samples.ts';
import { mebibytes, whole } from './table.ts';

const OBJECTS = 10_000;
const HANDLERS = join(import.meta.dirname, 'controllers');
const TEAMS: Resource = {
  ...{ group: 'bench.example.com', version: 'v1', resource: 'teams', kind: 'Team', namespaced: false },
};
const CRD = definitionOf(TEAMS, {
  versions: [versionOf('v1', ANY, { subresources: { status: {} } })],
});
interface Team extends KubeObject {
  readonly spec: { readonly size: number };
  readonly status?: { readonly size?: number; readonly sawAt?: number };
}

const { values: flags } = parseArgs({ options: { check: { type: 'boolean', default: false } } });
const seconds = (value: number): string => `${value.toFixed(1)} s`;
const milliseconds = (value: number): string => `${value.toFixed(0)} ms`;

const passesOf = (metrics: string): number =>
  sampleOf(metrics, 'controller_runtime_reconcile_total{controller="teams",result="success"}') ?? 0;

const nameOf = (index: number): string => `team-${index}`;

async function prepare(cluster: ClusterProcess): Promise<void> {
  const { stdout } = await promisify(execFile)(process.execPath, [MAIN, 'manifests', '--handlers', HANDLERS]);
  const roles = parseAllDocuments(stdout).map((document) => document.toJS() as KubeObject);
  const discovery = createDiscovery(cluster.rest, systemClock);
  await applyManifests({ client: cluster.client, discovery, namespace: 'default' }, [CRD, ...roles]);
  await times(OBJECTS, async (index) => {
    const team: Team = { metadata: { name: nameOf(index) }, spec: { size: 0 } };
    await eventually('the API serves Teams', () => cluster.client.create(TEAMS, team));
  });
}

const isIdle = (metrics: string): boolean =>
  sampleOf(metrics, 'workqueue_depth{name="controller-teams"}') === 0;

async function untilQuiet(replica: Replica, least: number): Promise<string> {
  return await eventually(
    `${least} passes`,
    async () => {
      const metrics = await replica.metrics();
      return passesOf(metrics) >= least && isIdle(metrics) ? metrics : undefined;
    },
    { timeoutMs: 300_000, everyMs: 100 },
  );
}

const rssOf = (metrics: string): number => sampleOf(metrics, 'process_resident_memory_bytes') ?? 0;
const cpuOf = (metrics: string): number => sampleOf(metrics, 'process_cpu_seconds_total') ?? 0;

async function measureStart(cluster: ClusterProcess): Promise<readonly Figure[]> {
  const first = await start(cluster, 'first');
  const began = performance.now();
  await untilQuiet(first, OBJECTS);
  const firstMs = performance.now() - began;
  await first.program.stop(30_000);
  const without = await cluster.startReplica('without', CONTAINER_HEAP);
  await without.whenReady(60_000);
  await sleep(5_000);
  const base = rssOf(await without.metrics());
  await without.program.stop(30_000);
  const startedAt = performance.now();
  const second = await start(cluster, 'second');
  const metrics = await untilQuiet(second, OBJECTS);
  const readyMs = performance.now() - startedAt;
  await sleep(5_000);
  const more = Math.max(rssOf(metrics), rssOf(await second.metrics())) - base;
  const writes = (await cluster.audit()).filter(
    ({ userAgent = '', verb, objectRef }) =>
      userAgent.includes('(second)') &&
      ['create', 'update', 'patch', 'delete'].includes(verb) &&
      ['teams', 'configmaps'].includes(objectRef?.resource ?? '') &&
      objectRef?.namespace !== 'gatehouse-system',
  );
  await second.program.stop(30_000);
  return [
    {
      what: `${whole(OBJECTS)} new objects, each with a ConfigMap: until the last is reconciled`,
      measured: seconds(firstMs / 1_000),
    },
    {
      what: `${whole(OBJECTS)} reconciled objects: from the start of a replica to its last pass`,
      measured: seconds(readyMs / 1_000),
      target: atMost(readyMs / 1_000, 10, seconds),
    },
    { what: '  its writes', measured: String(writes.length), target: atMost(writes.length, 0, String) },
    {
      what: '  memory (RSS) more than without the controller',
      measured: mebibytes(more),
      target: atMost(more, 150 * 2 ** 20, mebibytes),
    },
  ];
}

async function change(
  cluster: ClusterProcess,
  replica: Replica,
  rate: number,
  forSeconds: number,
  size: number,
) {
  const sentAt = new Map<string, number>();
  const before = cpuOf(await replica.metrics());
  const sending: Promise<unknown>[] = [];
  const began = performance.now();
  for (let count = 0; count < rate * forSeconds; count += 1) {
    const dueMs = (count / rate) * 1_000 - (performance.now() - began);
    if (dueMs > 1) await sleep(dueMs);
    const name = nameOf(count);
    sentAt.set(name, Date.now());
    sending.push(cluster.client.patchMerge(TEAMS, { name }, { spec: { size } }));
  }
  await Promise.all(sending);
  const sentMs = performance.now() - began;
  const seen = await eventually(
    'the controller has seen all changes',
    async () => {
      // While the replica works, the lists would slow down the API server.
      if (!isIdle(await replica.metrics())) return undefined;
      const { items } = await cluster.client.listAll<Team>(TEAMS);
      const changed = items.filter(({ metadata }) => sentAt.has(metadata?.name ?? ''));
      return changed.every(({ status }) => status?.size === size) ? changed : undefined;
    },
    { timeoutMs: 120_000, everyMs: 250 },
  );
  const doneMs = performance.now() - began;
  const cpu = cpuOf(await replica.metrics()) - before;
  const waits = seen.map(
    ({ metadata, status }) => (status?.sawAt ?? NaN) - (sentAt.get(metadata?.name ?? '') ?? NaN),
  );
  return { waits, sentMs, doneMs, cores: cpu / (doneMs / 1_000) };
}

async function measureChanges(cluster: ClusterProcess): Promise<readonly Figure[]> {
  const replica = await start(cluster, 'changes');
  await untilQuiet(replica, OBJECTS);
  await change(cluster, replica, 50, 5, 1); // warms up
  const slow = await change(cluster, replica, 50, 20, 2);
  const fast = await change(cluster, replica, 500, 10, 3);
  await replica.program.stop(30_000);
  const p99 = percentile(slow.waits, 0.99);
  const lag = (fast.doneMs - fast.sentMs) / 1_000;
  return [
    {
      what: '50 changes a second: from the request to the first pass, p99',
      measured: milliseconds(p99),
      target: atMost(p99, 100, milliseconds),
    },
    {
      what: '  p50 and the longest',
      measured: [0.5, 1].map((share) => milliseconds(percentile(slow.waits, share))).join(', '),
    },
    {
      what: `500 changes a second for 10 s (sent in ${seconds(fast.sentMs / 1_000)}): the last status after the last change`,
      measured: seconds(lag),
      target: atMost(lag, 2, seconds),
    },
    {
      what: '  cores that the replica used meanwhile',
      measured: fast.cores.toFixed(2),
      target: atMost(fast.cores, 1, (cores) => cores.toFixed(2)),
    },
  ];
}

async function start(cluster: ClusterProcess, name: string): Promise<Replica> {
  const replica = await cluster.startReplica(name, CONTAINER_HEAP, { handlers: HANDLERS });
  await replica.whenReady(60_000);
  return replica;
}

await runBenchmark(flags.check, async () => {
  const cluster = await startClusterProcess('sandbox', ['--max-old-space-size=8192']);
  try {
    await prepare(cluster);
    return [...(await measureStart(cluster)), ...(await measureChanges(cluster))];
  } finally {
    await cluster.stop();
  }
});
