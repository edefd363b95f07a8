/** The requests of each replica after an outage of the API server, until all watches are open again. */
import { setTimeout as sleep } from 'node:timers/promises';

import { createNamespace, startClusterFor, type Cluster } from '../support/cluster.ts';
import { startBalancer } from '../support/balancer.ts';
import { startReplica, type Replica } from '../support/gatehouse.ts';
import { eventually } from '../support/processes.ts';
import { startApiProxy, type ApiProxy } from '../support/api-proxy.ts';
import { createKinds, gadget, kindOf, policyOf } from './scene.ts';

export interface StormOptions {
  readonly replicas: number;
  readonly kinds: number;
  /** The minimum duration of the outage, in milliseconds. */
  readonly outageMs: number;
  /** False: the API server only becomes unreachable. True: the API server and etcd are stopped and started again. */
  readonly restart: boolean;
}

/** `watches`: when all replicas together have as many open as before the outage. */
export type Storm = ReturnType<typeof judge>;

interface Watcher {
  readonly replica: Replica;
  readonly proxy: ApiProxy;
  /** When the requests arrived, in the time of `performance.now()`. */
  readonly arrivals: readonly number[];
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
      const arrivals: number[] = [];
      const proxy = await startApiProxy(cluster.plane, name, () => {
        arrivals.push(performance.now());
        return undefined;
      });
      const plane = { folder: cluster.plane.folder, kubeconfig: proxy.kubeconfig };
      const replica = await startReplica(plane, { name, servicePort: balancer.port });
      watchers.push({ proxy, arrivals, replica });
    }
    balancer.setBackends(watchers.map(({ replica }) => replica.port));
    await Promise.all(watchers.map(({ replica }) => replica.whenReady()));
    const before = await Promise.all(watchers.map(({ proxy }) => settledWatches(proxy)));
    const openedAt = await interrupt(cluster, watchers, options);
    const open = () => watchers.map(({ proxy }) => proxy.watches());
    // The totals: after a change of the leader, the former leader has fewer watches.
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

/** Policies may take effect after a replica is ready, and the leader starts its controllers later. */
async function settledWatches(proxy: ApiProxy): Promise<number> {
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

function judge({ replica, proxy, arrivals }: Watcher, openedAt: number, recoveredMs: number) {
  const since = arrivals.filter((at) => at >= openedAt);
  const first = since.filter((at) => at < openedAt + 1_000);
  return {
    replica: replica.name,
    watches: proxy.watches(),
    firstSecond: first.length,
    worstSecond: worstSecond(since),
    requests: since.length,
    recoveredMs,
  };
}

function worstSecond(all: readonly number[]): number {
  let worst = 0;
  let from = 0;
  for (const [to, at] of all.entries()) {
    while ((all[from] ?? at) <= at - 1_000) from += 1;
    worst = Math.max(worst, to - from + 1);
  }
  return worst;
}
