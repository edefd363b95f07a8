import type { Contents } from './admission-server.ts';
import type { Scenario, Stage } from './admission-turns.ts';
import { atMost, type Figure } from './figures.ts';
import { mebibytes } from './table.ts';

/** Enough for a replica of a busy cluster for hours. Each webhook gets half of the requests. */
const LOAD = (['3 KB', '100 KB'] as const).flatMap((size) =>
  (['validate', 'mutate'] as const).map((webhook) => ({
    scenario: { webhook, connections: 16, size } satisfies Scenario,
    requests: size === '3 KB' ? 500_000 : 5_000,
  })),
);
const MOST_BYTES = 200 * 2 ** 20;
const MOST_FOR_OBJECTS = 60 * 2 ** 20;

/** @param many the same contents as `few`, with more objects */
export async function measureMemory(stage: Stage, few: Contents, many: Contents): Promise<readonly Figure[]> {
  const least = await residentAfterLoad(stage, few);
  const more = (await residentAfterLoad(stage, many)) - least;
  return [
    {
      what: 'resident memory after a million requests of 3 KB and ten thousand of 100 KB',
      measured: mebibytes(least),
      target: atMost(least, MOST_BYTES, mebibytes),
    },
    {
      what: `  additional memory with ${many.datacenters} datacenters`,
      measured: mebibytes(more),
      target: atMost(more, MOST_FOR_OBJECTS, mebibytes),
    },
  ];
}

async function residentAfterLoad(stage: Stage, contents: Contents): Promise<number> {
  const server = await stage.start('gatehouse', contents);
  let most = 0;
  for (const { scenario, requests } of LOAD) {
    const { rss } = await server.turn(scenario, { requests });
    most = Math.max(most, rss);
  }
  await server.stop();
  return most;
}
