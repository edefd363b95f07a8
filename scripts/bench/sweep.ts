/**
 * Measures the sweep after a large restore: `npm run bench:sweep`. With `-- --check` it fails when a target is missed.
 * `-- --objects 10000` measures one size. A fifth of the objects reference a target that does not exist.
 */
import { readFileSync } from 'node:fs';
import { parseArgs } from 'node:util';

import type { RestoreWindow } from '../../src/api/restore-window.ts';
import { METADATA_ACCEPT } from '../../src/kube/client.ts';
import { resourcePath, type Resource } from '../../src/kube/object.ts';
import type { KubeObject } from '../../src/json/kube-object.ts';
import { RESTORE_WINDOWS } from '../../src/runtime/resources.ts';
import { eventually } from '../../test/support/processes.ts';
import {
  application,
  applicationPolicy,
  APPLICATIONS,
  zone,
  ZONES,
} from '../../test/support/restore-kinds.ts';
import { CONTAINER_HEAP } from './child.ts';
import { startClusterProcess, type ClusterProcess } from './cluster-process.ts';
import { times } from './burst.ts';
import { atMost, runBenchmark, type Figure } from './figures.ts';
import { apply, namespaceFor, prepareRestores } from './restore-scene.ts';
import { mebibytes, whole } from './table.ts';

const SIZES = [10_000, 100_000];
const ZONE_COUNT = 1_000;
const LONGEST_MS = 120_000;
const MOST_BYTES = 300 * 2 ** 20;
/** Reads of pages, counts and the window, without one read for each finding. */
const MOST_REQUESTS = 3_000;

const { values: flags } = parseArgs({
  options: { check: { type: 'boolean', default: false }, objects: { type: 'string' } },
});

interface Measured {
  readonly objects: number;
  readonly tookMs: number;
  readonly violations: number;
  readonly listed: number;
  readonly requests: Readonly<Record<string, number>>;
  readonly progress: number;
  readonly memoryBefore: number;
  readonly memory: number;
}

async function sweepOf(objects: number): Promise<Measured> {
  const cluster = await startClusterProcess('kube-apiserver');
  try {
    await prepareRestores(cluster);
    await apply(cluster, applicationPolicy);
    const expiresAt = new Date(Date.now() + 3_600_000).toISOString();
    const spec = { principals: [{ user: 'bench' }], expiresAt };
    await cluster.client.create<RestoreWindow>(RESTORE_WINDOWS, { metadata: { name: 'bench' }, spec });
    await createObjects(cluster, objects);
    // Only now, because the API server calls webhooks as soon as a leader has installed them.
    const leader = await cluster.startReplica('leader', CONTAINER_HEAP, 'controllers');
    const webhook = await cluster.startReplica('webhook', [], 'webhook');
    await webhook.whenReady(120_000);
    const peak = () => peakOf(leader.program.pid);
    await whenPhase(cluster, 'Open');
    const memoryBefore = peak();
    await cluster.client.patchMerge(RESTORE_WINDOWS, { name: 'bench' }, { spec: { close: true } });
    const { status, progress } = await finalSweep(cluster);
    const { startedAt = '', finishedAt = '' } = status.lastSweep ?? {};
    const memory = peak();
    const requests = await requestsBetween(cluster, startedAt, finishedAt);
    await Promise.all([leader, webhook].map(({ program }) => program.stop(30_000)));
    return {
      objects: status.lastSweep?.objectsScanned ?? 0,
      tookMs: Date.parse(finishedAt) - Date.parse(startedAt),
      violations: status.violations?.total ?? 0,
      listed: status.violations?.items.length ?? 0,
      requests,
      progress,
      memoryBefore,
      memory,
    };
  } finally {
    await cluster.stop();
  }
}

async function createObjects(cluster: ClusterProcess, count: number): Promise<void> {
  const create = async (resource: Resource, object: KubeObject) => {
    const path = resourcePath(resource, { namespace: object.metadata?.namespace });
    const headers = { accept: METADATA_ACCEPT }; // the response needs no body
    await cluster.rest.request({ method: 'POST', path, body: object, headers });
  };
  await times(ZONE_COUNT, (index) => create(ZONES, zone(`zone-${index}`)));
  await times(count, (index) => {
    const target = index % 5 === 0 ? `missing-${index}` : `zone-${index % ZONE_COUNT}`;
    const parent = `app-${index - (index % 10)}`; // one that the same namespace has
    const spec = index % 10 === 0 ? { zone: target, parent } : { zone: target };
    return create(APPLICATIONS, application(namespaceFor(index), `app-${index}`, spec));
  });
}

/** The largest resident memory of the process so far, in bytes. */
function peakOf(pid: number): number {
  const [, kilobytes = '0'] = /^VmHWM:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8')) ?? [];
  return Number(kilobytes) * 1_024;
}

const windowNow = ({ client }: ClusterProcess) =>
  client.get<RestoreWindow>(RESTORE_WINDOWS, { name: 'bench' });

async function whenPhase(cluster: ClusterProcess, phase: string): Promise<void> {
  const isReached = async () => (await windowNow(cluster))?.status?.phase === phase;
  await eventually(`the window is ${phase}`, isReached, { timeoutMs: 120_000 });
}

async function finalSweep(cluster: ClusterProcess) {
  const seen = new Set<string>();
  const isDone = async () => {
    const { status } = (await windowNow(cluster)) ?? {};
    if (status?.currentSweep !== undefined) seen.add(JSON.stringify(status.currentSweep));
    return status?.lastSweep?.interim === false ? status : undefined;
  };
  const status = await eventually('the final sweep', isDone, { timeoutMs: 1_200_000, everyMs: 500 });
  return { status, progress: seen.size };
}

/** Requests of Gatehouse by verb, without the Lease and watches. */
async function requestsBetween(cluster: ClusterProcess, from: string, to: string) {
  const events = (await cluster.audit()).filter(({ stageTimestamp, verb, objectRef }) => {
    const at = Date.parse(stageTimestamp);
    const isIn = at >= Date.parse(from) && at <= Date.parse(to);
    return isIn && verb !== 'watch' && objectRef?.resource !== 'leases';
  });
  const byVerb = [...Map.groupBy(events, ({ verb }) => verb)];
  return Object.fromEntries(byVerb.map(([verb, { length }]) => [verb, length]));
}

function figuresOf(measured: Measured, first: Measured): readonly Figure[] {
  const { objects, violations, tookMs, requests, memory } = measured;
  const total = Object.values(requests).reduce((sum, count) => sum + count, 0);
  const verbs = Object.entries(requests).map(([verb, count]) => `${verb} ${whole(count)}`);
  const ratio = (value: number, smaller: number) =>
    measured === first ? '' : ` (${(value / smaller).toFixed(1)} times)`;
  const seconds = (ms: number) => `${(ms / 1_000).toFixed(1)} s`;
  return [
    {
      what: `final sweep of ${whole(objects)} objects, ${whole(violations)} with a missing target`,
      measured: `${seconds(tookMs)}${ratio(tookMs, first.tookMs)}`,
      target: atMost(tookMs, LONGEST_MS, seconds),
    },
    {
      what: `  requests to the API server: ${verbs.join(', ')}`,
      measured: `${whole(total)}${ratio(
        total,
        Object.values(first.requests).reduce((a, b) => a + b, 0),
      )}`,
      target: atMost(total, MOST_REQUESTS, whole),
    },
    {
      what: '  peak memory (VmHWM) of the leader',
      measured: `${mebibytes(memory)}${ratio(memory, first.memory)}`,
      target: atMost(memory, MOST_BYTES, mebibytes),
    },
    { what: '  before the first sweep', measured: mebibytes(measured.memoryBefore) },
    {
      what: '  violations in status, and states of progress seen',
      measured: `${measured.listed}, ${measured.progress}`,
    },
  ];
}

async function measure(): Promise<readonly Figure[]> {
  const sizes = flags.objects === undefined ? SIZES : [Number(flags.objects)];
  const all: Measured[] = [];
  for (const size of sizes) all.push(await sweepOf(size));
  return all.flatMap((one) => figuresOf(one, all[0] ?? one));
}

await runBenchmark(flags.check, measure);
