import type { Contents } from './admission-server.ts';
import type { Stage, Subject } from './admission-turns.ts';
import { atMost, type Figure } from './figures.ts';
import { mebibytes } from './table.ts';

/** Enough for a replica of a busy cluster for hours. Each webhook gets half of the requests. */
const REQUESTS = { '3 KB': 1_000_000, '100 KB': 10_000 } as const;
/** Objects in a store need the same memory before and after most requests. */
const FIRST_SHARE = 0.1;
const MOST_BYTES = 200 * 2 ** 20;
const MOST_FOR_OBJECTS = 60 * 2 ** 20;

/** @param many the same contents as `few`, with more objects */
export async function measureMemory(stage: Stage, few: Contents, many: Contents): Promise<readonly Figure[]> {
  const server = await stage.start('gatehouse', few);
  const first = await residentAfter(server, FIRST_SHARE);
  const most = Math.max(first, await residentAfter(server, 1 - FIRST_SHARE));
  await server.stop();
  const other = await stage.start('gatehouse', many);
  const more = (await residentAfter(other, FIRST_SHARE)) - first;
  await other.stop();
  return [
    {
      what: 'resident memory after a million requests of 3 KB and ten thousand of 100 KB',
      measured: mebibytes(most),
      target: atMost(most, MOST_BYTES, mebibytes),
    },
    {
      what: `  additional memory with ${many.datacenters} datacenters`,
      measured: mebibytes(more),
      target: atMost(more, MOST_FOR_OBJECTS, mebibytes),
    },
  ];
}

/** The most resident memory in bytes, after each part of this share of the requests. */
async function residentAfter(server: Subject, share: number): Promise<number> {
  let most = 0;
  for (const size of ['3 KB', '100 KB'] as const) {
    for (const webhook of ['validate', 'mutate'] as const) {
      const requests = Math.round((REQUESTS[size] * share) / 2);
      const { rss } = await server.turn({ webhook, connections: 16, size }, { requests });
      most = Math.max(most, rss);
    }
  }
  return most;
}
