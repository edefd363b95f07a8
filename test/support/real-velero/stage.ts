/** A cluster with the default overlay of Gatehouse, a real Velero, and the policies of the restore suites. */
import { startClusterFor, type Cluster } from '../cluster.ts';
import { seeInForce, untilReviewed } from '../gatehouse-cluster.ts';
import { startReplica, type Replica } from '../gatehouse.ts';
import { freePort } from '../processes.ts';
import { applicationPolicy, ownersPolicy, relinkRole, uidsPolicy } from '../restore-kinds.ts';
import { enforceApplications, installKinds, trustVelero, untilDetectorCounts } from '../restore-scene.ts';
import { backupOf, createScene, readScene, type Scene } from './scenes.ts';
import { backUp, startVelero } from './server.ts';

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

/** Creates a scene, and backs it up. `before` is what a restore brings back. */
export async function backUpScene({ cluster, velero }: Stage, scene: Scene) {
  await createScene(cluster, scene);
  const { isRestored = () => true } = scene;
  const before = (await readScene(cluster, scene)).filter(isRestored);
  return { before, archive: await backUp(velero, scene.name, backupOf(scene)) };
}

/** Gatehouse detects restores by Velero from now on. */
export async function detectRestores(cluster: Cluster): Promise<void> {
  await trustVelero(cluster, { settle: '1s', idle: '1s' });
  await untilDetectorCounts(cluster);
}

export async function enforcePolicies(cluster: Cluster): Promise<void> {
  const match = { ...applicationPolicy.spec.match, objectSelector: { matchLabels: { uids: 'yes' } } };
  const uids: typeof uidsPolicy = { ...uidsPolicy, spec: { ...uidsPolicy.spec, match } };
  await cluster.apply(relinkRole, ownersPolicy, uids);
  await enforceApplications(cluster);
  for (const { metadata } of [ownersPolicy, uidsPolicy]) await seeInForce(cluster, metadata.name);
}
