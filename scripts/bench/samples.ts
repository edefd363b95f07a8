/** What a replica says of itself in its metrics. */
import { setTimeout as sleep } from 'node:timers/promises';

import type { Replica } from '../../test/support/gatehouse.ts';
import { eventually } from '../../test/support/processes.ts';

/** The value of one line in the Prometheus text format. `series` includes the labels, as written in the line. */
export function sampleOf(metrics: string, series: string): number | undefined {
  const line = metrics.split('\n').find((one) => one.startsWith(`${series} `));
  return line === undefined ? undefined : Number(line.slice(series.length + 1));
}

/** In bytes. */
export type Use = Awaited<ReturnType<typeof useOf>>;

export async function useOf(replica: Replica) {
  const metrics = await replica.metrics();
  return {
    rss: sampleOf(metrics, 'process_resident_memory_bytes') ?? 0,
    heap: sampleOf(metrics, 'nodejs_heap_size_used_bytes') ?? 0,
  };
}

/** Samples the memory of a replica twice a second until `stop`, which returns the maximum of each value. */
export function mostOf(replica: Replica): { readonly stop: () => Promise<Use> } {
  const stopping = new AbortController();
  let most: Use = { rss: 0, heap: 0 };
  const look = async () => {
    const { rss, heap } = await useOf(replica);
    most = { rss: Math.max(most.rss, rss), heap: Math.max(most.heap, heap) };
  };
  const loop = async () => {
    while (!stopping.signal.aborted) {
      await look().catch(() => undefined); // the replica may not listen yet
      await sleep(500);
    }
  };
  const running = loop();
  return {
    stop: async () => {
      stopping.abort();
      await running;
      await look();
      return most;
    },
  };
}

/** Waits until the replica has looked at this number of Services. @returns how many it has looked at */
export async function untilServicesSeen(replica: Replica, count: number): Promise<number> {
  await replica.whenReady(120_000);
  return await eventually(
    'the replica has processed each Service',
    async () => {
      const metrics = await replica.metrics();
      const done = sampleOf(metrics, 'workqueue_work_duration_seconds_count{name="serving-certs"}') ?? 0;
      const isIdle = sampleOf(metrics, 'workqueue_depth{name="serving-certs"}') === 0;
      return done >= count && isIdle ? done : undefined;
    },
    { timeoutMs: 300_000, everyMs: 200 },
  );
}
