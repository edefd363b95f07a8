/**
 * Compares Gatehouse with the lower bound for a webhook: `npm run bench:admission`. With `-- --check` it fails when a
 * target is missed. `-- --only "validate 3 KB 16"` measures only what has these words in its name. Server and client
 * have one core each. Turns are short and alternate, and only ratios within a round count, so other load on the machine
 * affects all servers equally.
 */
import { cpus, loadavg } from 'node:os';
import { parseArgs } from 'node:util';

import { measureCompiled } from './admission-compiled.ts';
import { measureMemory } from './admission-memory.ts';
import { measureReferences } from './admission-references.ts';
import { contentFigures, nameOf, printComparison, speedFigures, type Rounds } from './admission-report.ts';
import { SIZES, type Size } from './admission-reviews.ts';
import { playRounds, startStage, type Scenario, type Stage } from './admission-turns.ts';
import { printFigures, type Figure } from './figures.ts';

const { values: flags } = parseArgs({
  options: { check: { type: 'boolean', default: false }, only: { type: 'string' } },
});

const FEW = { policies: 1, datacenters: 10 };
const MANY = { policies: 1_000, datacenters: 100_000 };
/** Many connections first: they warm up the code for one connection. */
const CONNECTIONS = [16, 1];
const WEBHOOKS = ['validate', 'mutate'] as const;

const isWanted = (name: string): boolean =>
  flags.only === undefined || ` ${name} `.includes(` ${flags.only} `);

const SCENARIOS = CONNECTIONS.flatMap((connections) =>
  (Object.keys(SIZES) as Size[]).flatMap((size) =>
    // the keys of a constant
    WEBHOOKS.map((webhook): Scenario => ({ webhook, connections, size })),
  ),
).filter((scenario) => isWanted(nameOf(scenario)));
/** Compared with few policies and objects. */
const CONTENT_SCENARIOS = WEBHOOKS.map((webhook): Scenario => ({
  webhook,
  connections: 16,
  size: '3 KB',
})).filter(({ webhook }) => isWanted(`contents ${webhook}`));
const MEASURES_MEMORY = isWanted('memory');
const MEASURES_COMPILED = isWanted('compiled');
const MEASURES_REFERENCES = isWanted('references');
const ONE_FIGURE = MEASURES_MEMORY || MEASURES_COMPILED || MEASURES_REFERENCES;
if (SCENARIOS.length + CONTENT_SCENARIOS.length === 0 && !ONE_FIGURE)
  throw new Error(
    `--only ${flags.only ?? ''}: names are like "validate 3 KB 16", "contents mutate", "memory", "compiled" and "references"`,
  );

/**
 * The code that V8 generates differs between processes by more than the targets allow, so the benchmark measures
 * several processes of each server.
 */
const PROCESSES = 3;

const load = () => loadavg()[0]?.toFixed(1) ?? '';
const before = load();
const figures = [
  ...(await measure()),
  ...(MEASURES_COMPILED ? await measureCompiled() : []),
  ...(MEASURES_REFERENCES ? await measureReferences() : []),
];
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
  /** In the order of CONTENT_SCENARIOS. */
  readonly contents: readonly Rounds[];
}

async function measure(): Promise<readonly Figure[]> {
  const stage = await startStage(FEW.datacenters);
  const all: Measured[] = [];
  for (let time = 0; time < PROCESSES; time += 1) {
    all.push({ speeds: await measureSpeeds(stage), contents: await measureContents(stage) });
  }
  const memory = MEASURES_MEMORY
    ? await measureMemory(stage, FEW, { ...FEW, datacenters: MANY.datacenters })
    : [];
  await stage.stop();

  const speeds = SCENARIOS.flatMap((scenario, index) => {
    const rounds = all.flatMap((measured) => measured.speeds[index] ?? []);
    printComparison(scenario, rounds);
    return speedFigures(scenario, rounds);
  });
  const name = `${MANY.policies} policies and ${MANY.datacenters} datacenters`;
  const contents = CONTENT_SCENARIOS.flatMap((scenario, index) =>
    contentFigures(
      name,
      scenario,
      all.flatMap((measured) => measured.contents[index] ?? []),
    ),
  );
  return [...speeds, ...contents, ...memory];
}

async function measureSpeeds(stage: Stage): Promise<readonly Rounds[]> {
  if (SCENARIOS.length === 0) return [];
  const floor = await stage.start('floor', FEW);
  const gatehouse = await stage.start('gatehouse', FEW);
  if (!gatehouse.pinned)
    console.warn('server and client share their cores: taskset is missing, or the machine has one core');
  const speeds: Rounds[] = [];
  for (const scenario of SCENARIOS) speeds.push(await playRounds([floor, gatehouse], scenario));
  await floor.stop();
  await gatehouse.stop();
  return speeds;
}

async function measureContents(stage: Stage): Promise<readonly Rounds[]> {
  if (CONTENT_SCENARIOS.length === 0) return [];
  // Start both processes at the same time: an older process has more compiled code.
  const few = await stage.start('gatehouse', FEW);
  const many = await stage.start('gatehouse', MANY);
  const contents: Rounds[] = [];
  for (const scenario of CONTENT_SCENARIOS) contents.push(await playRounds([few, many], scenario));
  await few.stop();
  await many.stop();
  return contents;
}
