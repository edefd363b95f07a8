/** The cluster in which a window is opened, closed or looked at, as the user of the kubeconfig. */
import { createClient, type KubeClient } from '../../kube/client.ts';
import { systemClock } from '../../kube/clock.ts';
import { loadConnection } from '../../kube/connection.ts';
import { createDiscovery } from '../../kube/discovery.ts';
import { createRest } from '../../kube/rest.ts';
import { createServerClock } from '../../kube/server-clock.ts';
import type { ClusterFlags } from './command.ts';

export interface RestoreCluster {
  readonly client: Pick<KubeClient, 'get' | 'listAll' | 'create' | 'patchMerge'>;
  /** As the API server has it: windows end by its clock, not by that of the user. */
  readonly now: () => Date;
  readonly close: () => Promise<void>;
}

/** A person waits for it. */
const FIRST_ANSWER_MS = 10_000;

/** @throws when there is no cluster, or it does not answer */
export async function connectToCluster(flags: ClusterFlags): Promise<RestoreCluster> {
  const connection = await loadConnection(flags);
  const serverClock = createServerClock();
  const rest = createRest({
    connection,
    userAgent: 'gatehouse/0.1.0 (restore)',
    onDate: serverClock.observe,
  });
  try {
    await createDiscovery(rest, systemClock).serverVersion(AbortSignal.timeout(FIRST_ANSWER_MS));
    return { client: createClient(rest), now: serverClock.now, close: connection.close };
  } catch (error) {
    await connection.close();
    throw new Error(`could not reach the API server ${connection.server}`, { cause: error });
  }
}
