/** Runs one fault after another under load, and collects the results. */
import { setTimeout as sleep } from 'node:timers/promises';

import { converge, type Convergence } from './convergence.ts';
import type { Fault } from './faults.ts';
import { judgeLeaders, readLeaderWrites, type LeaderVerdict } from './leader-writes.ts';
import { untilHealthy } from './replicas.ts';
import type { Scene } from './scene.ts';
import { checkStored } from './stored.ts';
import type { Counts } from './tally.ts';

export interface Row extends Counts {
  readonly name: string;
  readonly seconds: number;
  /** Undefined for a phase without a fault, or when the cluster did not recover in time. */
  readonly recoveryMs: number | undefined;
  readonly error: Error | undefined;
}

export interface Outcome {
  readonly rows: readonly Row[];
  readonly stored: number;
  readonly convergence: Convergence;
  readonly leaders: LeaderVerdict;
}

const CALM_MS = { short: 500, full: 5_000 };
const HEALTHY_MS = 60_000;

export async function runFaults(
  scene: Scene,
  faults: readonly Fault[],
  onRow: (row: Row) => void,
): Promise<Outcome> {
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
