import { randomBytes } from 'node:crypto';
import { freemem } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';

import { METADATA_ACCEPT } from '../../src/kube/client.ts';
import { resourcePath } from '../../src/kube/object.ts';
import { secrets } from '../../src/kube/well-known.ts';
import { startClusterProcess, type ClusterProcess } from './cluster-process.ts';
import { CONTAINER_HEAP } from './child.ts';
import { atMost, percentile, type Figure } from './figures.ts';
import { createNamespaces, createServices, namespaceOf, times } from './burst.ts';
import { mostOf, untilServicesSeen, useOf, type Use } from './samples.ts';
import { mebibytes, whole } from './table.ts';

const LEAVES = 10_000;
const FOREIGN = 20_000;
const FOREIGN_BYTES = 100 * 1_024;
const BUDGET = 250 * 2 ** 20;
/** The maximum share of the machine's free memory for the sandbox. */
const SHARE = 0.5;
/** The size of one Secret in the sandbox, which keeps it as JSON with base64. */
const HELD_BYTES = 1.4 * FOREIGN_BYTES;

export const WHY_SANDBOX =
  'Memory is measured on the sandbox, because etcd stores at most 2 GiB by default. ' +
  "The leader's memory depends on the responses of the API server, and the sandbox sends the same responses.";

/** The memory of a leader with many serving certificates, in a cluster with many large Secrets of others. */
export async function measureMemory(): Promise<readonly Figure[]> {
  const foreign = Math.min(FOREIGN, Math.floor((freemem() * SHARE) / HELD_BYTES));
  const cluster = await startClusterProcess('sandbox', ['--max-old-space-size=8192']);
  try {
    await createNamespaces(cluster);
    await createForeign(cluster, foreign);
    const first = await cluster.startReplica('one', CONTAINER_HEAP);
    await first.whenReady(60_000);
    const idle = await useOf(first);
    const issuing = mostOf(first);
    const { ready } = await createServices(cluster, LEAVES, 600_000);
    const issued = await issuing.stop();
    await first.program.stop(30_000);

    const second = await cluster.startReplica('two', CONTAINER_HEAP);
    const starting = mostOf(second);
    await untilServicesSeen(second, LEAVES);
    const started = await starting.stop();
    await sleep(30_000);
    const rest = await useOf(second);
    await second.program.stop(30_000);

    const peak = Math.max(issued.rss, started.rss);
    const described = `${whole(LEAVES)} leaves and ${whole(foreign)} Secrets of others of 100 KiB each`;
    return [
      {
        what: `memory (RSS) of a leader in a container of 512 MiB, sandbox, ${described}: the most`,
        measured: mebibytes(peak),
        target: atMost(peak, BUDGET, mebibytes),
      },
      { what: '  before the first leaf, and its heap', measured: print(idle) },
      { what: '  while they are issued: the most', measured: print(issued) },
      { what: '  while another leader starts with all of them: the most', measured: print(started) },
      { what: '  half a minute later', measured: print(rest) },
      {
        what: `  seconds until the ${whole(LEAVES)} were issued`,
        measured: (percentile(ready, 1) / 1_000).toFixed(1),
      },
    ];
  } finally {
    await cluster.stop();
  }
}

const print = ({ rss, heap }: Use): string => `${mebibytes(rss)}, ${mebibytes(heap)} of heap`;

async function createForeign({ rest }: ClusterProcess, count: number): Promise<void> {
  const data = { release: randomBytes(FOREIGN_BYTES).toString('base64') };
  await times(count, async (index) => {
    const namespace = namespaceOf(index);
    await rest.request({
      method: 'POST',
      path: resourcePath(secrets, { namespace }),
      body: {
        apiVersion: 'v1',
        kind: 'Secret',
        metadata: { name: `release-${index}` },
        type: 'Opaque',
        data,
      },
      headers: { accept: METADATA_ACCEPT }, // the response needs no body
    });
  });
}
