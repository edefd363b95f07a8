/** Runs one fault after another under load, and collects the results. */
import { setTimeout as sleep } from 'node:timers/promises';

import { converge, type Convergence } from './convergence.ts';
import type { Fault } from './faults/fault.ts';
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
  /** Why the fault failed. */
  readonly error: Error | undefined;
}

export interface Outcome {
  readonly rows: readonly Row[];
  readonly stored: number;
  readonly convergence: Convergence;
  readonly leaders: LeaderVerdict;
}

/** How long the cluster runs without a fault before the first fault and after each one. */
const CALM_MS = { short: 500, full: 5_000 };
const HEALTHY_MS = 60_000;

export async function runFaults(
  scene: Scene,
  faults: readonly Fault[],
  onRow: (row: Row) => void,
): Promise<Outcome> {
  const rows: Row[] = [];
  const add = (row: Row) => {
    rows.push(row);
    onRow(row);
  };
  const calmMs = scene.isShort ? CALM_MS.short : CALM_MS.full;
  const calm = await runOne(scene, 'no fault', () => sleep(4 * calmMs).then(() => undefined));
  add({ ...calm, recoveryMs: undefined });
  for (const { name, run } of faults)
    add(
      await runOne(scene, name, async () => {
        const took = await run(scene);
        await untilHealthy(scene.replicas, HEALTHY_MS);
        await sleep(calmMs);
        return took;
      }),
    );
  const over = performance.now();
  await scene.load.stop();
  await scene.traffic.resolveUnknown();
  const convergence = await converge(scene);
  const stored = await checkStored(scene);
  const last = scene.tally.take(factsOf(scene));
  const name = 'after the last fault';
  add({
    ...last,
    name,
    seconds: (performance.now() - over) / 1_000,
    recoveryMs: convergence.ms,
    error: undefined,
  });
  const leaders = judgeLeaders(await readLeaderWrites(scene.cluster.plane.folder));
  return { rows, stored, convergence, leaders };
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
  const counts = scene.tally.take(factsOf(scene));
  return { ...counts, name, recoveryMs, error, seconds: (performance.now() - from) / 1_000 };
}

const factsOf = ({ outages, front, replicas }: Scene) => ({
  outages,
  breaks: front.breaks(),
  kills: replicas.kills(),
});

/** All checks that failed. */
export function failuresOf({ rows, convergence, leaders }: Outcome): readonly string[] {
  const failures: string[] = [];
  for (const { name, failed, wrong, error } of rows) {
    if (failed.length > 0) failures.push(`${name}: ${failed.length} admissions failed`);
    if (wrong.length > 0) failures.push(`${name}: ${wrong.length} verdicts are wrong`);
    if (error !== undefined) failures.push(`${name}: ${error.message}`);
  }
  failures.push(...convergence.problems.map((one) => `30 s after the last fault: ${one}`));
  if (leaders.problems.length > 0)
    failures.push(
      `${leaders.problems.length} writes of former leaders, the first: ${leaders.problems[0] ?? ''}`,
    );
  return failures;
}
