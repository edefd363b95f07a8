import { setTimeout as sleep } from 'node:timers/promises';

import { startClusterProcess, type ClusterProcess } from './cluster-process.ts';
import { atMost, percentile, type Figure } from './figures.ts';
import { createNamespaces, createServices, namespaces } from './burst.ts';
import { whole } from './table.ts';

const SERVICES = 1_000;
/** The limit for the 95th percentile of the waiting time, in milliseconds. */
const PATIENCE = 5_000;
const CALLS = 2;

const seconds = (milliseconds: number): string => `${(milliseconds / 1_000).toFixed(2)} s`;

/** @throws Error when kube-apiserver is not installed */
export async function measureServices(): Promise<readonly Figure[]> {
  const cluster = await startClusterProcess('kube-apiserver');
  try {
    const first = await cluster.startReplica('one');
    await first.whenReady(60_000);
    await createNamespaces(cluster);
    const { ready, waited } = await createServices(cluster, SERVICES, 120_000);
    const calls = await callsPerLeaf(cluster);
    await first.program.stop(30_000);
    const p95 = percentile(waited, 0.95);
    return [
      {
        what: `${whole(SERVICES)} Services in parallel, kube-apiserver ${cluster.version}: from each create to its Secret, p95`,
        measured: seconds(p95),
        target: atMost(p95, PATIENCE, seconds),
      },
      {
        what: '  p50 and the longest',
        measured: [0.5, 1].map((share) => seconds(percentile(waited, share))).join(', '),
      },
      {
        what: '  from the beginning of the burst, with the time that the creates take: p50, p95, the last',
        measured: [0.5, 0.95, 1].map((share) => seconds(percentile(ready, share))).join(', '),
      },
      {
        what: `  requests to the API server for each leaf, Events included (${calls.by})`,
        measured: calls.each.toFixed(2),
        target: atMost(calls.each, CALLS, String),
      },
    ];
  } finally {
    await cluster.stop();
  }
}

async function callsPerLeaf(cluster: ClusterProcess) {
  await sleep(1_000); // the API server logs a completed request with a delay
  const about = (await cluster.audit()).filter(({ objectRef }) =>
    namespaces.includes(objectRef?.namespace ?? ''),
  );
  const counts = new Map<string, number>();
  for (const { verb, objectRef } of about) {
    const what = `${verb} ${objectRef?.resource ?? ''}`;
    counts.set(what, (counts.get(what) ?? 0) + 1);
  }
  const by = [...counts].map(([what, count]) => `${(count / SERVICES).toFixed(2)} ${what}`).join(', ');
  return { each: about.length / SERVICES, by };
}
