/** The sandbox, or etcd and kube-apiserver, in its own process. Forked and controlled by cluster-process.ts. */
import { startClusterFor, type Cluster } from '../../test/support/cluster.ts';
import { isGatehouse, perUser } from '../../test/support/control-plane-users.ts';
import { answerCalls } from './child.ts';

let cluster: Cluster | undefined;

const functions = {
  start: async (port: number) => {
    cluster = await startClusterFor(port);
    const { version, folder, kubeconfig, server, ca, token } = cluster.plane;
    return {
      version: version.gitVersion,
      folder,
      kubeconfigs: perUser(kubeconfig),
      endpoint: { server, ca, token: token('admin') },
    };
  },
  audit: () => (cluster?.plane.auditLog() ?? []).filter(({ user }) => isGatehouse(user.username)),
};
export type ClusterServer = typeof functions;

answerCalls(functions, async () => cluster?.stop());
