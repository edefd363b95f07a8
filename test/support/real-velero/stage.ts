/** A cluster with the default overlay of Gatehouse, a real Velero, and the policies of the restore suites. */
import { startClusterFor, type Cluster } from '../cluster.ts';
import { seeInForce, untilReviewed } from '../gatehouse-cluster.ts';
import { startReplica, type Replica } from '../gatehouse.ts';
import { freePort } from '../processes.ts';
import { applicationPolicy, ownersPolicy, relinkRole, uidsPolicy } from '../restore-kinds.ts';
import { enforceApplications, installKinds } from '../restore-scene.ts';
import { startVelero } from './server.ts';

type Process = 'webhook' | 'controllers';

export type Stage = Awaited<ReturnType<typeof startStage>>;

/** @param prepare creates what Velero has to know when it starts: it looks for kinds only every five minutes */
export async function startStage(prepare: (cluster: Cluster) => Promise<void> = installKinds) {
  const port = await freePort();
  const cluster = await startClusterFor(port);
  await prepare(cluster);
  const replicas = new Map<Process, Replica>();
  const start = async (only: Process) => {
    const replica = await startReplica(cluster.plane, { name: only, only, port });
    replicas.set(only, replica);
    await replica.whenReady();
  };
  const [velero] = await Promise.all([startVelero(cluster), start('controllers'), start('webhook')]);
  await untilReviewed(cluster);
  return {
    cluster,
    velero,
    start,
    kill: async (process: Process) => {
      const program = replicas.get(process)?.program;
      program?.kill('SIGKILL');
      await program?.exited;
    },
    stop: async () => {
      await velero.stop();
      await Promise.all([...replicas.values()].map(({ program }) => program.stop(15_000)));
      await cluster.stop();
    },
  };
}

export async function enforcePolicies(cluster: Cluster): Promise<void> {
  const match = { ...applicationPolicy.spec.match, objectSelector: { matchLabels: { uids: 'yes' } } };
  const uids: typeof uidsPolicy = { ...uidsPolicy, spec: { ...uidsPolicy.spec, match } };
  await cluster.apply(relinkRole, ownersPolicy, uids);
  await enforceApplications(cluster);
  for (const { metadata } of [ownersPolicy, uidsPolicy]) await seeInForce(cluster, metadata.name);
}
