/**
 * Inputs by the million for what reads what others write: `npm run fuzz`, with `-- --short` for a part of them that takes a
 * minute at most. `--seed` makes a run again, `--target` limits it to the targets whose name holds a text.
 */
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

/** Few enough to look at the clock often, many enough for fast-check to try values of all sizes. */
const BATCH = 500;
const SHORT_MS = 60_000;

interface Row {
  readonly name: string;
  readonly inputs: number;
  readonly milliseconds: number;
  readonly longest: number;
  readonly failure: (FuzzFailure & { readonly seed: number; readonly inputs: number }) | undefined;
}

const targets = ALL_TARGETS.filter(({ name }) => name.includes(flags.target));
const shares = targets.reduce((sum, { share }) => sum + share, 0);
const rows: Row[] = [];
for (const target of targets) rows.push(await fuzz(target));
print(rows);
if (rows.length === 0) throw new Error(`no target is called ${flags.target}`);
if (rows.some(({ failure }) => failure !== undefined)) process.exitCode = 1;

/** Until it has had its share of the inputs, or of the time, or something does not hold. */
async function fuzz({ name, share, run }: FuzzTarget): Promise<Row> {
  const wanted = Math.ceil((Number(flags.inputs) * share) / shares);
  const deadline = performance.now() + (flags.short ? (SHORT_MS * share) / shares : Infinity);
  const started = performance.now();
  let [inputs, longest, seed] = [0, 0, Number(flags.seed)];
  let failure: Row['failure'];
  while (inputs < wanted && performance.now() < deadline && failure === undefined) {
    const result = await run(Math.min(BATCH, wanted - inputs), seed);
    inputs += result.inputs;
    longest = Math.max(longest, result.longest);
    if (result.failure !== undefined) failure = { ...result.failure, seed, inputs: result.inputs };
    seed += 1;
  }
  return { name, inputs, milliseconds: performance.now() - started, longest, failure };
}

function print(all: readonly Row[]): void {
  const lines = all.map(({ name, inputs, milliseconds, longest, failure }) => [
    name,
    whole(inputs),
    whole(perSecond(inputs, milliseconds)),
    longest.toFixed(1),
    failure === undefined ? 'holds' : 'FAILED',
  ]);
  const total = all.reduce((sum, { inputs }) => sum + inputs, 0);
  printTable([
    ['target', 'inputs', 'a second', 'longest, ms', ''],
    ...lines,
    ['all', whole(total), '', '', ''],
  ]);
  console.log(`seed ${flags.seed}`);
  for (const { name, failure } of all) {
    if (failure === undefined) continue;
    console.error(`\n${name}: an input for which it does not hold:\n${failure.input.slice(0, 20_000)}`);
    console.error(failure.error);
    console.error(
      `Again: npm run fuzz -- --target '${name}' --seed ${failure.seed} --inputs ${failure.inputs}`,
    );
  }
}
