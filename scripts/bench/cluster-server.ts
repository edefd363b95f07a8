/** The sandbox, or etcd and kube-apiserver, in its own process. Forked and controlled by cluster-process.ts. */
import { startClusterFor, type Cluster } from '../../test/support/cluster.ts';
import type { AuditEvent } from '../../test/support/control-plane.ts';
import { isGatehouse, perUser, type PerUser } from '../../test/support/control-plane-users.ts';
import type { Failure } from './child.ts';

export type Question =
  | {
      readonly kind: 'start';
      readonly port: number;
    }
  | { readonly kind: 'audit' };

export type Answer =
  | {
      readonly kind: 'started';
      readonly version: string;
      readonly folder: string;
      readonly kubeconfigs: PerUser;
    }
  | { readonly kind: 'audit'; readonly events: readonly AuditEvent[] };

let cluster: Cluster | undefined;

process.on('message', (question: Question) => {
  void answer(question).then((said) => process.send?.(said));
});
process.once('disconnect', () => {
  void Promise.resolve(cluster?.stop()).finally(() => process.exit());
});

async function answer(question: Question): Promise<Answer | Failure> {
  switch (question.kind) {
    case 'start': {
      try {
        cluster = await startClusterFor(question.port);
      } catch (error) {
        return { kind: 'failed', message: error instanceof Error ? error.message : String(error) };
      }
      const { version, folder, kubeconfig } = cluster.plane;
      return { kind: 'started', version: version.gitVersion, folder, kubeconfigs: perUser(kubeconfig) };
    }
    case 'audit': {
      const events = cluster?.plane.auditLog() ?? [];
      return { kind: 'audit', events: events.filter(({ user }) => isGatehouse(user.username)) };
    }
  }
}
