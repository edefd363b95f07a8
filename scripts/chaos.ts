/**
 * Faults, one after the other, while a real API server asks three replicas of Gatehouse for 200 admission reviews a second:
 * `npm run chaos`, with `-- --short` for a run of four minutes with 130, which two busy cores carry. `--only` limits it to the faults
 * whose name holds a text, `--seed` draws the same requests again, `--rate` says how many reviews a second. Ends with 1 when anything
 * does not hold, and then says where the logs are.
 */
import { cpSync, mkdtempSync, readdirSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';

import { ALL_FAULTS } from '../test/chaos/faults/all-faults.ts';
import { failuresOf, runFaults } from '../test/chaos/run.ts';
import { startScene, type Scene } from '../test/chaos/scene.ts';
import { printOutcome, printTroubles } from '../test/chaos/table.ts';

const { values: flags } = parseArgs({
  options: {
    short: { type: 'boolean', default: false },
    rate: { type: 'string' },
    seed: { type: 'string', default: String(Date.now() % 2 ** 31) },
    only: { type: 'string', default: '' },
  },
});

const seed = Number(flags.seed);
const rate = Number(flags.rate ?? (flags.short ? 130 : 200));
const faults = ALL_FAULTS.filter(({ name }) => name.includes(flags.only));
if (faults.length === 0) throw new Error(`no fault is called ${flags.only}`);

const started = performance.now();
const scene = await startScene({ seed, isShort: flags.short, rate });
console.error(`three replicas are ready after ${secondsSince(started)} s; seed ${seed}`);
for (const signal of ['SIGINT', 'SIGTERM'] as const)
  process.once(signal, () => {
    void scene.stop().finally(() => process.exit(1));
  });
try {
  const outcome = await runFaults(scene, faults, (row) => {
    console.error(`${secondsSince(started)} s: ${row.name} is over`);
    printTroubles(row);
  });
  printOutcome(outcome, seed);
  const failures = failuresOf(outcome);
  if (failures.length > 0) fail(failures);
} catch (error) {
  fail([`the run did not come to its end: ${String(error)}`]);
  throw error;
} finally {
  await scene.stop();
  console.error(`it took ${secondsSince(started)} s`);
}

function fail(failures: readonly string[]): void {
  process.exitCode = 1;
  for (const failure of failures) console.error(`DOES NOT HOLD: ${failure}`);
  const options = [
    ...(flags.short ? ['--short'] : []),
    ...(flags.rate === undefined ? [] : [`--rate ${rate}`]),
    ...(flags.only === '' ? [] : [`--only '${flags.only}'`]),
  ];
  console.error(`Again: npm run chaos -- ${[...options, `--seed ${seed}`].join(' ')}`);
  console.error(`The logs of replicas, API server and etcd: ${keepLogs(scene)}`);
}

function keepLogs({ cluster }: Scene): string {
  const kept = mkdtempSync(join(tmpdir(), 'gatehouse-chaos-'));
  for (const name of readdirSync(cluster.plane.folder))
    if (name.endsWith('.log')) cpSync(join(cluster.plane.folder, name), join(kept, name));
  return kept;
}

function secondsSince(from: number): string {
  return ((performance.now() - from) / 1_000).toFixed(1);
}
