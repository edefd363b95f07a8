/**
 * Measures the load on the API server after an outage: the requests of each replica in the first second, and until all
 * watches are open again.
 */
import { setTimeout as sleep } from 'node:timers/promises';

import { createNamespace, startClusterFor, type Cluster } from '../support/cluster.ts';
import { startBalancer } from '../support/balancer.ts';
import { startReplica, type Replica } from '../support/gatehouse.ts';
import { eventually } from '../support/processes.ts';
import { startCountingProxy, type CountingProxy } from './counting-proxy.ts';
import { createKinds, gadget, kindOf, policyOf } from './scene.ts';

export interface StormOptions {
  readonly replicas: number;
  /** The number of kinds. Each replica has two watches per kind. */
  readonly kinds: number;
  /** The minimum duration of the outage, in milliseconds. */
  readonly outageMs: number;
  /** False: the API server only becomes unreachable. True: the API server and etcd are stopped and started again. */
  readonly restart: boolean;
}

export interface Storm {
  readonly replica: string;
  /** The number of open watches when all replicas together have reached the total from before the outage. */
  readonly watches: number;
  /** The number of requests in the first second after the outage. */
  readonly firstSecond: number;
  /** The highest number of requests in one second, until every watch was open. */
  readonly worstSecond: number;
  readonly requests: number;
  readonly recoveredMs: number;
  /** The requests of the worst second, with their counts. */
  readonly asked: Readonly<Record<string, number>>;
}

interface Watcher {
  readonly replica: Replica;
  readonly proxy: CountingProxy;
}

export async function measureStorms(options: StormOptions): Promise<readonly Storm[]> {
  const balancer = await startBalancer();
  const cluster = await startClusterFor(balancer.port);
  const watchers: Watcher[] = [];
  try {
    await createKinds(cluster, options.kinds);
    await createNamespace(cluster, 'shop');
    for (let index = 0; index < options.kinds; index += 1) {
      await cluster.apply(policyOf(`policy-${index}`, index, options.kinds));
      await cluster.admin.create(kindOf(index), gadget(index, 'shop', 'one', { serial: String(index) }));
    }
    for (let index = 0; index < options.replicas; index += 1) {
      const name = `replica-${index + 1}`;
      const proxy = await startCountingProxy(cluster.plane, name);
      const plane = { folder: cluster.plane.folder, kubeconfig: proxy.kubeconfig };
      watchers.push({ proxy, replica: await startReplica(plane, { name, servicePort: balancer.port }) });
    }
    balancer.setBackends(watchers.map(({ replica }) => replica.port));
    await Promise.all(watchers.map(({ replica }) => replica.whenReady()));
    const before = await Promise.all(watchers.map(({ proxy }) => settledWatches(proxy)));
    const openedAt = await interrupt(cluster, watchers, options);
    const open = () => watchers.map(({ proxy }) => proxy.watches());
    // Compares the totals: after a change of the leader, the former leader has fewer watches.
    const areBack = () => total(open()) >= total(before);
    await eventually('every watch is open again', areBack, { timeoutMs: 180_000, everyMs: 20 });
    const recoveredMs = performance.now() - openedAt;
    await sleep(Math.max(0, 1_000 - recoveredMs));
    return watchers.map((watcher) => judge(watcher, openedAt, recoveredMs));
  } finally {
    await Promise.all(watchers.map(({ replica }) => replica.program.stop(15_000)));
    await Promise.all(watchers.map(({ proxy }) => proxy.stop()));
    await cluster.stop();
    await balancer.stop();
  }
}

/**
 * Waits until the number of watches is stable. After a replica is ready, policies may still take effect, and the leader
 * starts its controllers later.
 */
async function settledWatches(proxy: CountingProxy): Promise<number> {
  let last = -1;
  let since = performance.now();
  return await eventually(
    'a stable number of watches',
    () => {
      if (proxy.watches() !== last) [last, since] = [proxy.watches(), performance.now()];
      return performance.now() - since > 8_000 ? last : undefined;
    },
    { timeoutMs: 120_000, everyMs: 100 },
  );
}

/** Returns the time when the API server became reachable again. */
async function interrupt(
  { plane }: Cluster,
  watchers: readonly Watcher[],
  { outageMs, restart }: StormOptions,
): Promise<number> {
  await Promise.all(watchers.map(({ proxy }) => proxy.close()));
  const closed = performance.now();
  if (restart) {
    if (plane.processes === undefined) throw new Error('the sandbox cannot be restarted');
    await plane.processes.stop();
    await plane.processes.start();
  }
  await sleep(Math.max(0, outageMs - (performance.now() - closed)));
  const openedAt = performance.now();
  await Promise.all(watchers.map(({ proxy }) => proxy.open()));
  return openedAt;
}

const total = (numbers: readonly number[]): number => numbers.reduce((sum, one) => sum + one, 0);

function judge({ replica, proxy }: Watcher, openedAt: number, recoveredMs: number): Storm {
  const since = proxy.arrivals().filter(({ at }) => at >= openedAt);
  const first = since.filter(({ at }) => at < openedAt + 1_000);
  const worst = worstSecond(since);
  return {
    replica: replica.name,
    watches: proxy.watches(),
    firstSecond: first.length,
    worstSecond: worst.length,
    requests: since.length,
    recoveredMs,
    asked: counted(worst.map(({ what }) => what.replace(/gadget\d+s/, 'gadgets'))),
  };
}

const counted = (all: readonly string[]): Readonly<Record<string, number>> => {
  const counts: Record<string, number> = {};
  for (const one of all) counts[one] = (counts[one] ?? 0) + 1;
  return counts;
};

/** The most items within any second. The items must be in order of time. */
export function worstSecond<T extends { readonly at: number }>(all: readonly T[]): readonly T[] {
  let worst: readonly T[] = [];
  let from = 0;
  for (const [to, { at }] of all.entries()) {
    while ((all[from]?.at ?? at) <= at - 1_000) from += 1;
    if (to - from + 1 > worst.length) worst = all.slice(from, to + 1);
  }
  return worst;
}
