/**
 * What Gatehouse costs beside the least that a webhook can cost: `npm run bench:admission`, with `-- --check` to fail when a
 * target is missed. Server and client have a core each. Turns are short and alternate, and what counts is how the servers compare
 * within a round: whatever else the machine does meets all of them alike.
 */
import { cpus, loadavg } from 'node:os';
import { parseArgs } from 'node:util';

import { contentFigures, memoryFigure, printComparison, speedFigures } from './admission-report.ts';
import { SIZES, type Size } from './admission-reviews.ts';
import { playRounds, startStage, type Scenario } from './admission-turns.ts';
import { printFigures, type Figure } from './figures.ts';

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
  [`${MANY.policies} policies`, { ...FEW, policies: MANY.policies }],
  [`${MANY.datacenters} datacenters`, { ...FEW, datacenters: MANY.datacenters }],
] as const;

const load = () => loadavg()[0]?.toFixed(1) ?? '';
const before = load();
const figures = await measure();
printFigures(figures);
console.log(
  `${cpus().length} cores (${cpus()[0]?.model ?? ''}), Node ${process.version}; ` +
    `load ${before} before it, ${load()} at the end, of which this is a part`,
);

const missed = figures.filter(({ target }) => target?.met === false);
if (flags.check && missed.length > 0) {
  for (const { what, measured, target } of missed)
    console.error(`${what.trim()}: ${measured}, and ${target?.wanted ?? ''} is asked for`);
  process.exitCode = 1;
}

async function measure(): Promise<readonly Figure[]> {
  const stage = await startStage(FEW.datacenters);
  const floor = await stage.start('floor', FEW);
  const gatehouse = await stage.start('gatehouse', FEW);
  if (!gatehouse.pinned)
    console.warn('server and client share their cores: there is no taskset, or one core');
  const figures: Figure[] = [];
  for (const scenario of SCENARIOS) {
    const rounds = await playRounds([floor, gatehouse], scenario);
    printComparison(scenario, rounds);
    figures.push(...speedFigures(scenario, rounds));
  }
  await floor.stop();
  for (const [name, contents] of VARIANTS) {
    const other = await stage.start('gatehouse', contents);
    for (const webhook of WEBHOOKS) {
      const scenario: Scenario = { webhook, connections: 16, size: '3 KB' };
      figures.push(...contentFigures(name, scenario, await playRounds([gatehouse, other], scenario)));
    }
    if (contents.datacenters > FEW.datacenters) {
      const more = contents.datacenters - FEW.datacenters;
      figures.push(memoryFigure(((await other.heap()) - (await gatehouse.heap())) / more));
    }
    await other.stop();
  }
  await gatehouse.stop();
  await stage.stop();
  return figures;
}
