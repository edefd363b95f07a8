/** A cluster to read: nothing here can write. */
import { parseJson } from '../../../json/json.ts';
import type { KubeClient } from '../../../kube/client.ts';
import type { Discovery } from '../../../kube/discovery.ts';
import { hasMatchConditions } from '../../../runtime/context.ts';
import { connectToCluster } from '../../user-cluster.ts';

export interface Cluster {
  readonly server: string;
  /** Integers come without loss. */
  readonly client: Pick<KubeClient, 'get' | 'getMetadata' | 'list' | 'pages' | 'listAll'>;
  readonly discovery: Discovery;
  readonly matchConditions: boolean;
  readonly close: () => Promise<void>;
}

/** @throws as {@link connectToCluster} */
export async function connectToRead(flags: Parameters<typeof connectToCluster>[0]): Promise<Cluster> {
  const { version, ...cluster } = await connectToCluster(flags, 'review', parseJson);
  return { ...cluster, matchConditions: hasMatchConditions(version) };
}
