/** A cluster to read: nothing here can write. */
import { parseJson } from '../../../admission/json.ts';
import { createClient, type KubeClient } from '../../../kube/client.ts';
import { systemClock } from '../../../kube/clock.ts';
import { loadConnection } from '../../../kube/connection.ts';
import { createDiscovery, type Discovery } from '../../../kube/discovery.ts';
import { createRest } from '../../../kube/rest.ts';
import { hasMatchConditions } from '../../serve/connect.ts';

export interface Cluster {
  readonly server: string;
  /** Integers come without loss. */
  readonly client: Pick<KubeClient, 'get' | 'getMetadata' | 'list' | 'pages' | 'listAll'>;
  readonly discovery: Discovery;
  readonly matchConditions: boolean;
  readonly close: () => Promise<void>;
}

/** A person waits for it. */
const FIRST_ANSWER_MS = 10_000;

/** @throws when there is no cluster, or it does not answer */
export async function connectToCluster(options: {
  readonly kubeconfig?: string | undefined;
  readonly context?: string | undefined;
}): Promise<Cluster> {
  const connection = await loadConnection(options);
  const rest = createRest({ connection, userAgent: 'gatehouse/0.1.0 (review)', parse: parseJson });
  const discovery = createDiscovery(rest, systemClock);
  try {
    const version = await discovery.serverVersion(AbortSignal.timeout(FIRST_ANSWER_MS));
    return {
      server: connection.server,
      client: createClient(rest),
      discovery,
      matchConditions: hasMatchConditions(version),
      close: connection.close,
    };
  } catch (error) {
    await connection.close();
    throw new Error(`could not reach the API server ${connection.server}`, { cause: error });
  }
}
