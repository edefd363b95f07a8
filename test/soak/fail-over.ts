/** Measures the time without a leader after a leader was killed, and after one was stopped. */
import { startBalancer } from '../support/balancer.ts';
import { startClusterFor } from '../support/cluster.ts';
import { isLeading, startReplica, type Replica } from '../support/gatehouse.ts';
import { eventually } from '../support/processes.ts';

export type FailOvers = Awaited<ReturnType<typeof measureFailOvers>>;

/** The time from the signal until another replica leads in each round, in milliseconds. */
export async function measureFailOvers(rounds: number) {
  const balancer = await startBalancer();
  const cluster = await startClusterFor(balancer.port);
  let replicas: readonly Replica[] = [];
  let named = 0;
  const start = async () => {
    named += 1;
    const replica = await startReplica(cluster.plane, {
      name: `replica-${named}`,
      arrangement: 'both',
      servicePort: balancer.port,
    });
    await replica.whenReady();
    replicas = [...replicas, replica];
    balancer.setBackends(replicas.map(({ port }) => port));
  };
  const replace = async (signal: 'SIGKILL' | 'SIGTERM') => {
    const leader = await leaderOf(replicas);
    const heirs = replicas.filter((replica) => replica !== leader);
    const from = performance.now();
    leader.program.kill(signal);
    await leaderOf(heirs);
    const took = performance.now() - from;
    await leader.program.exited;
    replicas = heirs;
    await start();
    return took;
  };
  try {
    await start();
    await start();
    const killed: number[] = [];
    const ended: number[] = [];
    for (let round = 0; round < rounds; round += 1) {
      killed.push(await replace('SIGKILL'));
      ended.push(await replace('SIGTERM'));
    }
    return { killed, ended };
  } finally {
    await Promise.all(replicas.map(({ program }) => program.stop(15_000)));
    await cluster.stop();
    await balancer.stop();
  }
}

/** @throws Error when no replica leads within a minute */
async function leaderOf(replicas: readonly Replica[]): Promise<Replica> {
  return await eventually(
    'a replica leads',
    async () => {
      const leads = await Promise.all(replicas.map(isLeading));
      return replicas.find((_replica, index) => leads[index]);
    },
    { timeoutMs: 60_000, everyMs: 10 },
  );
}
