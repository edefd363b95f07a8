/**
 * Compares Gatehouse with the lower bound for a webhook: `npm run bench:admission`. With `-- --check` it fails when a
 * target is missed. Server and client have one core each. Turns are short and alternate, and only ratios within a round
 * count, so other load on the machine affects all servers equally.
 */
import { cpus, loadavg } from 'node:os';
import { parseArgs } from 'node:util';

import {
  contentFigures,
  memoryFigure,
  printComparison,
  speedFigures,
  type Rounds,
} from './admission-report.ts';
import { SIZES, type Size } from './admission-reviews.ts';
import { playRounds, startStage, type Scenario, type Stage } from './admission-turns.ts';
import { percentile, printFigures, type Figure } from './figures.ts';

const { values: flags } = parseArgs({ options: { check: { type: 'boolean', default: false } } });

const FEW = { policies: 1, datacenters: 10 };
const MANY = { policies: 1_000, datacenters: 100_000 };
const CONNECTIONS = [1, 16];
const WEBHOOKS = ['validate', 'mutate'] as const;

const SCENARIOS = CONNECTIONS.flatMap((connections) =>
  (Object.keys(SIZES) as Size[]).flatMap((size) =>
    // the keys of a constant
    WEBHOOKS.map((webhook): Scenario => ({ webhook, connections, size })),
  ),
);
const VARIANTS = [
  { name: `${MANY.policies} policies`, contents: { ...FEW, policies: MANY.policies } },
  { name: `${MANY.datacenters} datacenters`, contents: { ...FEW, datacenters: MANY.datacenters } },
];
const VARIANT_SCENARIOS = WEBHOOKS.map((webhook): Scenario => ({ webhook, connections: 16, size: '3 KB' }));

/**
 * The code that V8 generates differs between processes by more than the targets allow, so the benchmark measures
 * several processes of each server.
 */
const PROCESSES = 3;

const load = () => loadavg()[0]?.toFixed(1) ?? '';
const before = load();
const figures = await measure();
printFigures(figures);
console.log(
  `${cpus().length} cores (${cpus()[0]?.model ?? ''}), Node ${process.version}; ` +
    `load ${before} before the benchmark, ${load()} at its end, including the benchmark itself`,
);

const missed = figures.filter(({ target }) => target?.met === false);
if (flags.check && missed.length > 0) {
  for (const { what, measured, target } of missed)
    console.error(`${what.trim()}: ${measured} instead of ${target?.wanted ?? ''}`);
  process.exitCode = 1;
}

interface Measured {
  /** In the order of SCENARIOS. */
  readonly speeds: readonly Rounds[];
  /** In the order of VARIANTS, then of VARIANT_SCENARIOS. */
  readonly contents: readonly Rounds[];
  readonly bytesPerObject: number;
}

async function measure(): Promise<readonly Figure[]> {
  const stage = await startStage(FEW.datacenters);
  const all: Measured[] = [];
  for (let time = 0; time < PROCESSES; time += 1) all.push(await measureProcesses(stage));
  await stage.stop();

  const speeds = SCENARIOS.flatMap((scenario, index) => {
    const rounds = all.flatMap((measured) => measured.speeds[index] ?? []);
    printComparison(scenario, rounds);
    return speedFigures(scenario, rounds);
  });
  const variants = VARIANTS.flatMap(({ name }) => VARIANT_SCENARIOS.map((scenario) => ({ name, scenario })));
  const contents = variants.flatMap(({ name, scenario }, index) =>
    contentFigures(
      name,
      scenario,
      all.flatMap((measured) => measured.contents[index] ?? []),
    ),
  );
  const bytes = percentile(
    all.map(({ bytesPerObject }) => bytesPerObject),
    0.5,
  );
  return [...speeds, ...contents, memoryFigure(bytes)];
}

async function measureProcesses(stage: Stage): Promise<Measured> {
  const floor = await stage.start('floor', FEW);
  const gatehouse = await stage.start('gatehouse', FEW);
  if (!gatehouse.pinned)
    console.warn('server and client share their cores: taskset is missing, or the machine has one core');
  const speeds: Rounds[] = [];
  for (const scenario of SCENARIOS) speeds.push(await playRounds([floor, gatehouse], scenario));
  await floor.stop();
  await gatehouse.stop();
  const contents: Rounds[] = [];
  let bytesPerObject = NaN;
  for (const variant of VARIANTS) {
    // Start both processes at the same time: an older process has more compiled code.
    const few = await stage.start('gatehouse', FEW);
    const other = await stage.start('gatehouse', variant.contents);
    for (const scenario of VARIANT_SCENARIOS) contents.push(await playRounds([few, other], scenario));
    const more = variant.contents.datacenters - FEW.datacenters;
    if (more > 0) bytesPerObject = ((await other.heap()) - (await few.heap())) / more;
    await few.stop();
    await other.stop();
  }
  return { speeds, contents, bytesPerObject };
}
