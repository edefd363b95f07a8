/**
 * Compares Gatehouse with the lower bound for a webhook: `npm run bench:admission`. With `-- --check` it fails when a
 * target is missed. `-- --only "validate 3 KB 16"` measures only what has these words in its name. Server and client
 * have one core each. Turns are short and alternate, and only ratios within a round count, so other load on the machine
 * affects all servers equally.
 */
import { parseArgs } from 'node:util';

import { type Size, SIZES } from './admission-reviews.ts';
import { playRounds, type Scenario, type Stage, startStage, type Turn } from './admission-turns.ts';
import { atLeast, atMost, type Figure, percentile, runBenchmark } from './figures.ts';
import { mebibytes, printTable, whole } from './table.ts';
import type { Contents } from './admission-server.ts';

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
if (SCENARIOS.length + CONTENT_SCENARIOS.length === 0 && !MEASURES_MEMORY)
  throw new Error(
    `--only ${flags.only ?? ''}: unknown; give a name like "validate 3 KB 16", "contents mutate" or "memory"`,
  );

/**
 * The code that V8 generates differs between processes by more than the targets allow, so the benchmark measures
 * several processes of each server.
 */
const PROCESSES = 3;

interface Measured {
  readonly speeds: readonly Rounds[];
  readonly contents: readonly Rounds[];
}

async function measure(): Promise<readonly Figure[]> {
  const stage = await startStage(FEW.datacenters);
  const all: Measured[] = [];
  for (let time = 0; time < PROCESSES; time += 1) {
    all.push({ speeds: await measureSpeeds(stage), contents: await measureContents(stage) });
  }
  const memory = MEASURES_MEMORY ? await measureMemory(stage) : [];
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

/** A round has one turn of each server under comparison. The first server is the baseline. */
type Rounds = readonly (readonly Turn[])[];

const FLOOR = 0;
const OTHER = 1;
const LEAST_SHARE = 0.8;
const MOST_P99 = 1.5;
const MOST_LOSS = 0.05;

const median = (rounds: Rounds, valueOf: (turns: readonly Turn[]) => number): number =>
  percentile(rounds.map(valueOf), 0.5);

const of =
  (server: number, key: keyof Turn) =>
  (turns: readonly Turn[]): number =>
    turns[server]?.[key] ?? NaN;

const relation =
  (key: keyof Turn) =>
  (turns: readonly Turn[]): number =>
    of(OTHER, key)(turns) / of(FLOOR, key)(turns);

function nameOf({ webhook, connections, size }: Scenario): string {
  return `${webhook} ${size} ${connections}`;
}

const describe = ({ webhook, connections, size }: Scenario): string =>
  `${webhook}, ${size}, ${connections} connection${connections === 1 ? '' : 's'}`;

const ratio = (value: number): string => value.toFixed(2);
const milliseconds = (value: number): string => value.toFixed(2);
const microseconds = (value: number): string => whole(value * 1_000);

/** Prints all measurements. The figures contain only those with a target. */
function printComparison(scenario: Scenario, rounds: Rounds): void {
  const row = (what: string, key: keyof Turn, print: (value: number) => string) => [
    what,
    print(median(rounds, of(FLOOR, key))),
    print(median(rounds, of(OTHER, key))),
    ratio(median(rounds, relation(key))),
  ];
  printTable([
    [describe(scenario), 'bare fastify', 'Gatehouse', 'ratio'],
    row('  requests a second', 'requests', whole),
    row('  p50, ms', 'p50', milliseconds),
    row('  p99, ms', 'p99', milliseconds),
    row('  CPU a request, µs', 'cpu', microseconds),
    row('  memory (RSS)', 'rss', mebibytes),
    row('  core of the client in use', 'clientShare', ratio),
  ]);
}

function speedFigures(scenario: Scenario, rounds: Rounds): readonly Figure[] {
  const share = median(rounds, relation('requests'));
  const p99 = median(rounds, relation('p99'));
  const what = describe(scenario);
  return [
    {
      what: `${what}: throughput in relation to bare fastify`,
      measured: ratio(share),
      ...(scenario.connections > 1 ? { target: atLeast(share, LEAST_SHARE, ratio) } : {}),
    },
    { what: '  p99', measured: ratio(p99), target: atMost(p99, MOST_P99, ratio) },
  ];
}

function contentFigures(contents: string, scenario: Scenario, rounds: Rounds): readonly Figure[] {
  const share = median(rounds, relation('requests'));
  return [
    {
      what: `${describe(scenario)}, ${contents}: throughput in relation to few`,
      measured: ratio(share),
      target: atLeast(share, 1 - MOST_LOSS, ratio),
    },
  ];
}

/** Each webhook gets half of the requests. `npm run soak` measures whether memory grows later. */
const REQUESTS = { '3 KB': 100_000, '100 KB': 1_000 } as const;
const MOST_BYTES = 200 * 2 ** 20;
const MOST_FOR_OBJECTS = 60 * 2 ** 20;

async function measureMemory(stage: Stage): Promise<readonly Figure[]> {
  const few = await residentWith(stage, FEW);
  const more = (await residentWith(stage, { ...FEW, datacenters: MANY.datacenters })) - few;
  return [
    {
      what: 'resident memory after 100,000 requests of 3 KB and 1,000 of 100 KB',
      measured: mebibytes(few),
      target: atMost(few, MOST_BYTES, mebibytes),
    },
    {
      what: `  additional memory with ${MANY.datacenters} datacenters`,
      measured: mebibytes(more),
      target: atMost(more, MOST_FOR_OBJECTS, mebibytes),
    },
  ];
}

/** The most resident memory in bytes. */
async function residentWith(stage: Stage, contents: Contents): Promise<number> {
  const server = await stage.start('gatehouse', contents);
  let most = 0;
  for (const size of ['3 KB', '100 KB'] as const)
    for (const webhook of WEBHOOKS) {
      const { rss } = await server.turn({ webhook, connections: 16, size }, { requests: REQUESTS[size] / 2 });
      most = Math.max(most, rss);
    }
  await server.stop();
  return most;
}

await runBenchmark(flags.check, measure);
