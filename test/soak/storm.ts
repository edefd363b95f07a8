/** What the API server has to bear when it is back: the requests of each replica in the first second, and until all are served. */
import { setTimeout as sleep } from 'node:timers/promises';

import { createNamespace, startClusterFor, type Cluster } from '../support/cluster.ts';
import { startBalancer } from '../support/balancer.ts';
import { startReplica, type Replica } from '../support/gatehouse.ts';
import { eventually } from '../support/processes.ts';
import { startCountingProxy, type CountingProxy } from './counting-proxy.ts';
import { createKinds, gadget, kindOf, policyOf } from './scene.ts';

export interface StormOptions {
  readonly replicas: number;
  /** Two watches of each replica for each of them. */
  readonly kinds: number;
  /** How long the API server is away at least, in milliseconds. */
  readonly outageMs: number;
  /** Default: it only becomes unreachable; with it, it and etcd are stopped and started again. */
  readonly restart: boolean;
}

export interface Storm {
  readonly replica: string;
  /** When all replicas together had as many again as before the outage. */
  readonly watches: number;
  /** Requests in the first second in which the API server could be reached. */
  readonly firstSecond: number;
  /** Requests in the worst second from then until every watch was open. */
  readonly worstSecond: number;
  readonly requests: number;
  readonly recoveredMs: number;
  /** What was asked in the worst second, and how often. */
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
    // Together: who led has fewer when another one leads now.
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

/** A policy may still be coming into force after a replica is ready, and the leader begins after that. */
async function settledWatches(proxy: CountingProxy): Promise<number> {
  let last = -1;
  let since = performance.now();
  return await eventually(
    'as many watches as before',
    () => {
      if (proxy.watches() !== last) [last, since] = [proxy.watches(), performance.now()];
      return performance.now() - since > 8_000 ? last : undefined;
    },
    { timeoutMs: 120_000, everyMs: 100 },
  );
}

/** Gives the moment from which the API server could be reached again. */
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

/** The most that came within any second. In order of time. */
export function worstSecond<T extends { readonly at: number }>(all: readonly T[]): readonly T[] {
  let worst: readonly T[] = [];
  let from = 0;
  for (const [to, { at }] of all.entries()) {
    while ((all[from]?.at ?? at) <= at - 1_000) from += 1;
    if (to - from + 1 > worst.length) worst = all.slice(from, to + 1);
  }
  return worst;
}
