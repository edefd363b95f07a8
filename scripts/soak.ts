/**
 * Measures the limits of docs/operating.md on real processes: `npm run soak` takes about forty minutes.
 * `-- --short` takes about eight minutes, with fewer objects and rounds. `--minutes` sets the duration of the load.
 * `--only storm,cold,failover,load` selects the parts. The exit code is 1 when a limit is exceeded.
 */
import { arch, availableParallelism, totalmem } from 'node:os';
import { parseArgs } from 'node:util';

import { measureColdStarts } from '../test/soak/cold-start.ts';
import { measureFailOvers } from '../test/soak/fail-over.ts';
import {
  coldStartFigures,
  failOverFigures,
  sampleRows,
  steadyFigures,
  stormFigures,
} from '../test/soak/report.ts';
import { measureSteady } from '../test/soak/steady.ts';
import { measureStorms } from '../test/soak/storm.ts';
import { printFigures, type Figure } from './bench/figures.ts';
import { printTable, whole } from './bench/table.ts';

const { values: flags } = parseArgs({
  options: {
    short: { type: 'boolean', default: false },
    minutes: { type: 'string' },
    only: { type: 'string', default: 'storm,cold,failover,load' },
  },
});

const minutes = Number(flags.minutes ?? (flags.short ? 2 : 20));

async function storm(): Promise<readonly Figure[]> {
  const replicas = flags.short ? 2 : 3;
  return stormFigures(await measureStorms({ replicas, kinds: 30, outageMs: 20_000, restart: true }));
}

async function coldStart(): Promise<readonly Figure[]> {
  const count = flags.short ? 1_000 : 10_000;
  const starts = await measureColdStarts({
    services: count,
    objects: count,
    policies: 100,
    kinds: 20,
    starts: 3,
  });
  return coldStartFigures(
    starts,
    `${whole(count)} Services, ${whole(count)} custom resources and 100 policies`,
  );
}

async function failOver(): Promise<readonly Figure[]> {
  return failOverFigures(await measureFailOvers(flags.short ? 2 : 5));
}

async function load(): Promise<readonly Figure[]> {
  const options = { minutes, reviewsPerSecond: 500, changesPerSecond: 50 };
  const steady = await measureSteady(options);
  printTable(sampleRows(steady.samples));
  for (const failure of [...steady.reviews.failures, ...steady.changes.failures].slice(0, 5))
    console.error(failure);
  console.log('');
  return steadyFigures(steady, options);
}

const PARTS = { storm, cold: coldStart, failover: failOver, load } satisfies Record<
  string,
  () => Promise<readonly Figure[]>
>;

const wanted = flags.only.split(',');
const unknown = wanted.filter((name) => !(name in PARTS));
if (unknown.length > 0)
  throw new Error(`there is no part ${unknown.join(', ')}: ${Object.keys(PARTS).join(', ')}`);
console.log(
  `${availableParallelism()} cores (${arch()}), ${whole(totalmem() / 2 ** 30)} GiB, Node ${process.version}\n`,
);
let isMissed = false;
for (const [name, measure] of Object.entries(PARTS)) {
  if (!wanted.includes(name)) continue;
  const figures = await measure();
  printFigures(figures);
  console.log('');
  isMissed ||= figures.some(({ target }) => target?.met === false);
}
if (isMissed) process.exitCode = 1;
