/** Runs one fault after another under load, and collects the results. */
import { setTimeout as sleep } from 'node:timers/promises';

import { checkStored, converge, CONVERGED_WITHIN_MS, type Convergence } from './convergence.ts';
import type { Fault } from './faults.ts';
import { judgeLeaders, readLeaderWrites } from './leader-writes.ts';
import { untilHealthy } from './replicas.ts';
import type { Scene } from './scene.ts';
import type { Counts } from './oracle.ts';
import { printTable, whole } from '../../scripts/bench/table.ts';

interface Row extends Counts {
  readonly name: string;
  readonly seconds: number;
  /** Undefined for a phase without a fault, or when the cluster did not recover in time. */
  readonly recoveryMs: number | undefined;
  readonly error: Error | undefined;
}

type Outcome = Awaited<ReturnType<typeof runFaults>>;

const CALM_MS = { short: 500, full: 5_000 };
const HEALTHY_MS = 60_000;

export async function runFaults(scene: Scene, faults: readonly Fault[], onRow: (row: Row) => void) {
  const rows: Row[] = [];
  const run = async (name: string, work: () => Promise<number | undefined>) => {
    const row = await runOne(scene, name, work);
    rows.push(row);
    onRow(row);
  };
  const calmMs = scene.isShort ? CALM_MS.short : CALM_MS.full;
  await run('no fault', () => sleep(4 * calmMs).then(() => undefined));
  for (const fault of faults)
    await run(fault.name, async () => {
      const took = await fault.run(scene);
      await untilHealthy(scene.replicas, HEALTHY_MS);
      await sleep(calmMs);
      return took;
    });
  const { failures } = await scene.load.stop();
  if (failures[0] !== undefined) throw failures[0];
  let convergence: Convergence = { ms: 0, problems: [] };
  await run('after the last fault', async () => {
    convergence = await converge(scene);
    return convergence.ms;
  });
  const leaders = judgeLeaders(await readLeaderWrites(scene.cluster.plane.folder));
  return { rows, stored: scene.traffic.stock.all().length, convergence, leaders };
}

async function runOne(scene: Scene, name: string, work: () => Promise<number | undefined>): Promise<Row> {
  const from = performance.now();
  let recoveryMs: number | undefined;
  let error: Error | undefined;
  try {
    recoveryMs = await work();
    await checkStored(scene);
  } catch (thrown) {
    error = thrown instanceof Error ? thrown : new Error(String(thrown));
  }
  const counts = scene.tally.take(scene.outages);
  return { ...counts, name, recoveryMs, error, seconds: (performance.now() - from) / 1_000 };
}

export function failuresOf({ rows, convergence, leaders }: Outcome): readonly string[] {
  return [
    ...rows.flatMap(({ name, failed, wrong, error }) => [
      ...(failed.length > 0 ? [`${name}: ${failed.length} admissions failed`] : []),
      ...(wrong.length > 0 ? [`${name}: ${wrong.length} verdicts are wrong`] : []),
      ...(error === undefined ? [] : [`${name}: ${error.message}`]),
    ]),
    ...convergence.problems.map((one) => `30 s after the last fault: ${one}`),
    ...leaders.problems.slice(0, 3).map((one) => `a former leader wrote: ${one}`),
  ];
}

const COUNTS: Readonly<Record<string, (row: Row) => number>> = {
  failed: ({ failed }) => failed.length,
  'timed out': ({ timedOut }) => timedOut,
  'not asked': ({ notAsked }) => notAsked.length,
  wrong: ({ wrong }) => wrong.length,
};

const secondsOf = (ms: number): string => `${(ms / 1_000).toFixed(1)} s`;

const recoveryOf = ({ recoveryMs, error }: Row): string => {
  if (recoveryMs !== undefined) return secondsOf(recoveryMs);
  return error === undefined ? '' : 'NEVER';
};

export function printOutcome({ rows, stored, convergence, leaders }: Outcome, seed: number): void {
  printTable([
    ['fault', 'seconds', 'requests', 'a second', ...Object.keys(COUNTS), 'recovery'],
    ...rows.map((row) => [
      row.name,
      row.seconds.toFixed(1),
      whole(row.requests),
      whole(row.requests / row.seconds),
      ...Object.values(COUNTS).map((count) => whole(count(row))),
      recoveryOf(row),
    ]),
  ]);
  console.log(`\nwrites of leaders: ${whole(leaders.writes)} in ${leaders.terms} terms`);
  console.log(
    `converged after ${secondsOf(convergence.ms)} of ${secondsOf(CONVERGED_WITHIN_MS)}; ${whole(stored)} objects read again`,
  );
  console.log(`seed ${seed}`);
}

const SHOWN = 5;

export function printTroubles({ name, failed, wrong, error }: Row): void {
  for (const [kind, troubles] of Object.entries({ failed, wrong }))
    for (const { what, why, from, to } of troubles.slice(0, SHOWN))
      console.error(
        `${name}: ${kind} after ${Math.round(to - from)} ms: ${what}\n    ${why.slice(0, 1_000)}`,
      );
  if (error !== undefined) console.error(`${name}:`, error);
}
