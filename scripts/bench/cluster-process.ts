import { createClient } from '../../src/kube/client.ts';
import { loadConnection } from '../../src/kube/connection.ts';
import { createRest } from '../../src/kube/rest.ts';
import { startReplica, type ReplicaOptions } from '../../test/support/gatehouse.ts';
import { freePort } from '../../test/support/processes.ts';
import { startChild } from './child.ts';
import type { ClusterServer } from './cluster-server.ts';

export type ClusterProcess = Awaited<ReturnType<typeof startClusterProcess>>;

/** GATEHOUSE_ARRANGEMENT=split measures the leader of two processes. */
const arrangement = process.env.GATEHOUSE_ARRANGEMENT === undefined ? 'single' : 'both';

/** With the CRDs and RBAC of Gatehouse. @throws Error that says what to install when kube-apiserver is missing */
export async function startClusterProcess(
  kind: 'sandbox' | 'kube-apiserver',
  execArgv: readonly string[] = [],
) {
  const port = await freePort();
  const child = startChild<ClusterServer>('cluster-server.ts', {
    env: { GATEHOUSE_TEST_API: kind === 'sandbox' ? 'sandbox' : '' },
    execArgv,
  });
  try {
    const { version, folder, kubeconfigs, endpoint } = await child.call('start', port);
    const connection = await loadConnection({ kubeconfig: kubeconfigs.admin });
    const rest = createRest({ connection, userAgent: 'bench' });
    return {
      version,
      client: createClient(rest),
      rest,
      /** The data that a backup tool needs to connect and authenticate as an administrator. */
      endpoint,
      startReplica: (name: string, nodeArgs: readonly string[] = [], only?: ReplicaOptions['only']) =>
        startReplica(
          { folder, kubeconfig: (user) => kubeconfigs[user] },
          { name, port, nodeArgs, arrangement, ...(only && { only }) },
        ),
      /** The requests of Gatehouse so far, oldest first. */
      audit: () => child.call('audit'),
      stop: async () => {
        await connection.close();
        await child.stop();
      },
    };
  } catch (error) {
    await child.stop();
    throw error;
  }
}
