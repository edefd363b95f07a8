/**
 * Three tutorials of the kubebuilder book, once with our SDK and once with controller-runtime: `npm run bench:controllers`.
 * `-- --only buckets --objects 200 --rounds 3` measures one of them. Each run has an API server of its own.
 */
import { join } from 'node:path';
import { parseArgs } from 'node:util';

import { readManifests } from '../../src/cli/deploy-manifests.ts';
import type { AuditEvent } from '../../test/support/control-plane.ts';
import { established, startClusterFor, type Cluster } from '../../test/support/cluster.ts';
import { sumOf } from '../../test/support/gatehouse.ts';
import { eventually, freePort } from '../../test/support/processes.ts';
import {
  createObjects,
  pause,
  SCENARIOS,
  startKubelet,
  startService,
  untilDone,
  type Scenario,
} from './controllers-scene.ts';
import { linesOf, SIDES, TUTORIALS, useOf, type Side, type Started } from './controllers-sides.ts';
import { percentile } from './figures.ts';
import { printTable } from './table.ts';

const { values: flags } = parseArgs({
  options: {
    only: { type: 'string' },
    objects: { type: 'string', default: '1000' },
    rounds: { type: 'string', default: '1' },
    rest: { type: 'string', default: '30' },
  },
});
const OBJECTS = Number(flags.objects);
const PATIENCE_MS = 300_000;
const WRITES = ['create', 'update', 'patch', 'delete', 'deletecollection'];

type Measured = Readonly<Record<string, number>>;

/** An interrupted run leaves no API server behind. */
const stops = new Set<() => Promise<unknown>>();
for (const signal of ['SIGINT', 'SIGTERM'] as const)
  process.once(signal, () => {
    void Promise.allSettled([...stops].map((stop) => stop())).finally(() => process.exit(1));
  });

async function measure(scenario: Scenario, side: Side): Promise<Measured> {
  const cluster = await startClusterFor(await freePort(), {
    own: true,
    onlyControllers: ['garbage-collector-controller', 'clusterrole-aggregation-controller'],
  });
  stops.add(cluster.stop);
  const ending = new AbortController();
  const service = await startService();
  try {
    await cluster.apply(...readManifests(join(TUTORIALS, scenario.name)));
    await established(cluster, `${scenario.resource.resource}.${scenario.resource.group}`);
    await side.prepare(cluster, scenario);
    const kubelet =
      scenario.children === undefined ? undefined : startKubelet(cluster, scenario.children, ending.signal);
    kubelet?.catch(() => undefined); // it ends with the benchmark
    return await converge(cluster, scenario, side, service.url);
  } finally {
    ending.abort();
    service.stop();
    await cluster.stop();
    stops.delete(cluster.stop);
  }
}

async function converge(
  cluster: Cluster,
  scenario: Scenario,
  side: Side,
  service: string,
): Promise<Measured> {
  let running = await side.start(cluster, scenario, service);
  try {
    await pause(5_000); // it leads, and its watches are open
    const idle = useOf(running.pid);
    const requests = () => cluster.plane.auditLog().filter((one) => side.isOurs(one) && !isLease(one));
    const before = requests().length;
    const due = scenario.name === 'cronjobs' ? dueSoon() : new Date();
    const done = untilDone(cluster, scenario, OBJECTS, AbortSignal.timeout(PATIENCE_MS));
    done.catch(() => undefined); // awaited below
    await pause(500);
    const started = performance.now();
    await createObjects(cluster, scenario, OBJECTS, due);
    const created = performance.now();
    await done;
    const convergedMs =
      scenario.name === 'cronjobs' ? Date.now() - due.getTime() : performance.now() - started;
    await pause(3_000); // the audit log is late, and last passes may follow
    const after = requests();
    const { peak, rss, cpu } = useOf(running.pid);
    await pause(Number(flags.rest) * 1_000);
    const rested = requests().length - after.length;
    const end = useOf(running.pid);
    await running.stop();
    const atStop = requests().length;
    const restarted = performance.now();
    running = await side.start(cluster, scenario, service);
    await untilLooked(running, side, scenario);
    const restartMs = performance.now() - restarted;
    await pause(2_000);
    const again = requests().slice(atStop);
    const kinds = [scenario.resource, scenario.children].map((one) => one?.resource);
    const isAbout = ({ objectRef }: AuditEvent) => kinds.includes(objectRef?.resource);
    return {
      'until all are ready (s)': convergedMs / 1_000,
      '  of which the creates take (s)': (created - started) / 1_000,
      ...byVerb(after.slice(before).filter(isAbout)),
      '  others, in total': after.slice(before).filter((one) => !isAbout(one)).length,
      'CPU (s)': cpu - idle.cpu,
      'CPU from the start of the process (s)': cpu,
      'RSS when all are ready (MiB)': rss / 2 ** 20,
      'RSS at its peak (MiB)': peak / 2 ** 20,
      [`RSS after ${flags.rest} s of rest (MiB)`]: end.rss / 2 ** 20,
      [`requests in ${flags.rest} s of rest`]: rested,
      'restart: until each object had a pass (s)': restartMs / 1_000,
      'restart: writes of these kinds': again.filter((one) => isAbout(one) && isWrite(one)).length,
      'restart: reads of these kinds': again.filter((one) => isAbout(one) && !isWrite(one)).length,
    };
  } finally {
    await running.stop();
  }
}

const isWrite = ({ verb }: AuditEvent): boolean => WRITES.includes(verb);
const isLease = ({ objectRef }: AuditEvent): boolean => objectRef?.resource === 'leases';

/** The first full minute for which the objects can be created in time. */
const dueSoon = (): Date => new Date(Math.ceil((Date.now() + 25_000) / 60_000) * 60_000);

function byVerb(requests: readonly AuditEvent[]): Measured {
  const counts: Record<string, number> = { 'requests for each object': requests.length / OBJECTS };
  for (const { verb, objectRef } of requests) {
    const { resource = '', subresource } = objectRef ?? {};
    const what = `  ${verb} ${subresource === undefined ? resource : `${resource}/${subresource}`}`;
    counts[what] = (counts[what] ?? 0) + 1 / OBJECTS;
  }
  return Object.fromEntries(Object.entries(counts).filter(([, count]) => count >= 0.01));
}

async function untilLooked({ metrics }: Started, side: Side, scenario: Scenario): Promise<void> {
  const series = `controller_runtime_reconcile_total{controller="${side.controllerOf(scenario)}"`;
  await eventually('each object had a pass', async () => (await sumOf([{ metrics }], series)) >= OBJECTS, {
    timeoutMs: PATIENCE_MS,
    everyMs: 50,
  });
}

const format = (value: number | undefined): string =>
  value === undefined ? '0' : value >= 100 ? value.toFixed(0) : value.toFixed(2);

function report(scenario: Scenario, [ours = [], go = []]: readonly (readonly Measured[])[]): void {
  const names = [...new Set([...ours, ...go].flatMap((one) => Object.keys(one)))];
  const median = (all: readonly Measured[], name: string) =>
    percentile(
      all.map((one) => one[name] ?? 0),
      0.5,
    );
  const lines = linesOf(scenario);
  const rows = [
    ...names.map((name) => ({ name, a: median(ours, name), b: median(go, name) })),
    { name: 'lines of code', a: lines.ours, b: lines.go },
    { name: '  with generated code and main', a: lines.ours, b: lines.goWithGenerated },
  ];
  printTable([
    [`${OBJECTS} objects; ${scenario.what}`, 'ours', 'Go', 'ratio'],
    ...rows.map(({ name, a, b }) => [name, format(a), format(b), b === 0 ? '' : (a / b).toFixed(2)]),
  ]);
  console.log('');
}

for (const scenario of SCENARIOS.filter(({ name }) => flags.only === undefined || flags.only === name)) {
  const results: Measured[][] = SIDES.map(() => []);
  for (let round = 0; round < Number(flags.rounds); round += 1)
    for (const [index, side] of SIDES.entries()) results[index]?.push(await measure(scenario, side));
  report(scenario, results);
}
