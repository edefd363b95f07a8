/**
 * Fuzzes the code that reads input from others: `npm run fuzz`, with `-- --short` for half a minute. `--seed` repeats a
 * run, and `--target` selects the targets whose name contains a text.
 */
import { setImmediate } from 'node:timers/promises';
import { parseArgs } from 'node:util';

import { ALL_TARGETS } from '../test/fuzz/all-targets.ts';
import type { FuzzFailure, FuzzTarget } from '../test/fuzz/target.ts';
import { perSecond, printTable, whole } from './bench/table.ts';

const { values: flags } = parseArgs({
  options: {
    short: { type: 'boolean', default: false },
    inputs: { type: 'string', default: '1000000' },
    seed: { type: 'string', default: String(Date.now() % 2 ** 31) },
    target: { type: 'string', default: '' },
  },
});

/** Small enough to check the clock often, large enough for fast-check to try values of all sizes. */
const BATCH = 500;
/** With `--short`, batches are smaller: some targets are slow, so the clock must be checked more often. */
const SHORT_BATCH = 50;
const SHORT_MS = 30_000;

type Row = Awaited<ReturnType<typeof fuzz>>;
type Failure = FuzzFailure & { readonly seed: number; readonly inputs: number };

const targets = ALL_TARGETS.filter(({ name }) => name.includes(flags.target));
if (targets.length === 0) throw new Error(`--target ${flags.target}: not found`);
const shares = targets.reduce((sum, { share }) => sum + share, 0);

// An interrupted run still prints its results.
const stop = new AbortController();
for (const signal of ['SIGINT', 'SIGTERM'] as const) {
  process.once(signal, () => {
    stop.abort();
  });
}

const rows: Row[] = [];
for (const target of targets) {
  if (stop.signal.aborted) break;
  const row = await fuzz(target);
  rows.push(row);
  console.error(`${row.name}: ${whole(row.inputs)} inputs`);
}
print(rows);
if (rows.some(({ failure }) => failure !== undefined)) process.exitCode = 1;

/** `share` is of all inputs, from 0 to 1; `milliseconds` are CPU time, so that other load does not count. */
async function fuzz({ name, share, run }: FuzzTarget) {
  const inputsOfTarget = Math.ceil((Number(flags.inputs) * share) / shares);
  const deadline = performance.now() + (flags.short ? SHORT_MS / targets.length : Infinity);
  const batch = flags.short ? SHORT_BATCH : BATCH;
  const started = process.cpuUsage();
  let [inputs, longest, seed] = [0, 0, Number(flags.seed)];
  let failure: Failure | undefined;
  while (inputs < inputsOfTarget && performance.now() < deadline && failure === undefined) {
    await setImmediate(); // lets signal handlers run: synchronous checks never yield to the event loop
    if (stop.signal.aborted) break;
    const result = await run(Math.min(batch, inputsOfTarget - inputs), seed);
    inputs += result.inputs;
    longest = Math.max(longest, result.longest);
    if (result.failure !== undefined) failure = { ...result.failure, seed, inputs: result.inputs };
    seed += 1;
  }
  const { user, system } = process.cpuUsage(started);
  const milliseconds = (user + system) / 1_000;
  return { name, share: share / shares, inputs, milliseconds, longest, failure };
}

function percent(part: number): string {
  return `${(part * 100).toFixed(1)} %`;
}

function print(all: readonly Row[]): void {
  const lines = all.map(({ name, share, inputs, milliseconds, longest, failure }) => [
    name,
    percent(share),
    whole(inputs),
    whole(perSecond(inputs, milliseconds)),
    longest.toFixed(1),
    failure === undefined ? 'holds' : 'FAILED',
  ]);
  const inputs = all.reduce((sum, row) => sum + row.inputs, 0);
  const milliseconds = all.reduce((sum, row) => sum + row.milliseconds, 0);
  printTable([
    ['target', 'share', 'inputs', 'a second', 'longest, ms', ''],
    ...lines,
    ['all', '', whole(inputs), whole(perSecond(inputs, milliseconds)), '', ''],
  ]);
  console.log(`seed ${flags.seed}, ${(milliseconds / 1_000).toFixed(0)} s of the processor`);
  for (const row of all) if (row.failure !== undefined) printFailure(row.name, row.failure);
}

function printFailure(name: string, { input, json, error, seed, inputs }: Failure): void {
  console.error(`\n${name}: a failing input:\n${input.slice(0, 20_000)}`);
  console.error(error);
  console.error(`Again: npm run fuzz -- --target '${name}' --seed ${seed} --inputs ${inputs}`);
  if (json === undefined) return;
  console.error('After the fix, add this line to test/fuzz/past.jsonl, with a reason:');
  console.error(`{"target":${JSON.stringify(name)},"why":"","input":${json}}`);
}
