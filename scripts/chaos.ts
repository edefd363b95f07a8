/**
 * The chaos test: `npm run chaos`. It injects one fault after another while a real API server sends 200 admission
 * reviews per second to three webhook replicas of Gatehouse, next to two replicas of the controllers. `-- --short` runs for five
 * minutes at 130 reviews per second, which suits two cores. `--only` selects the faults whose name contains a text; repeat
 * it for more faults. `--seed` repeats the same requests, `--rate` sets the reviews per second. The exit code is 1 when a
 * check fails; the output then names the folder with the logs.
 */
import { cpSync, mkdtempSync, readdirSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';

import { ALL_FAULTS } from '../test/chaos/faults.ts';
import { failuresOf, printOutcome, printTroubles, runFaults } from '../test/chaos/run.ts';
import { startScene } from '../test/chaos/scene.ts';

const { values: flags } = parseArgs({
  options: {
    short: { type: 'boolean', default: false },
    rate: { type: 'string' },
    seed: { type: 'string', default: String(Date.now() % 2 ** 31) },
    only: { type: 'string', multiple: true, default: [''] },
  },
});

const seed = Number(flags.seed);
const rate = Number(flags.rate ?? (flags.short ? 130 : 200));
const unknown = flags.only.find((text) => !ALL_FAULTS.some(({ name }) => name.includes(text)));
if (unknown !== undefined) throw new Error(`no fault has a name that contains ${unknown}`);
const faults = ALL_FAULTS.filter(({ name }) => flags.only.some((text) => name.includes(text)));

const started = performance.now();
const scene = await startScene({ seed, isShort: flags.short, rate });
console.error(`all replicas are ready after ${secondsSince(started)} s; seed ${seed}`);
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
  for (const failure of failures) console.error(`FAILED: ${failure}`);
  const { folder } = scene.cluster.plane;
  const kept = mkdtempSync(join(tmpdir(), 'gatehouse-chaos-'));
  for (const name of readdirSync(folder))
    if (name.endsWith('.log')) cpSync(join(folder, name), join(kept, name));
  console.error(`seed ${seed}; the logs of replicas, API server and etcd: ${kept}`);
}

function secondsSince(from: number): string {
  return ((performance.now() - from) / 1_000).toFixed(1);
}
