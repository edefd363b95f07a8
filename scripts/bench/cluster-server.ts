/** The sandbox, or etcd and kube-apiserver, in its own process. Forked and controlled by cluster-process.ts. */
import { startClusterFor, type Cluster } from '../../test/support/cluster.ts';
import type { AuditEvent } from '../../test/support/control-plane.ts';
import { isGatehouse, perUser, type PerUser } from '../../test/support/control-plane-users.ts';
import { answerQuestions } from './child.ts';

export type Question = { readonly kind: 'start'; readonly port: number } | { readonly kind: 'audit' };

export type Answer =
  | {
      readonly kind: 'started';
      readonly version: string;
      readonly folder: string;
      readonly kubeconfigs: PerUser;
      readonly endpoint: { readonly server: string; readonly ca: string; readonly token: string };
    }
  | { readonly kind: 'audit'; readonly events: readonly AuditEvent[] };

let cluster: Cluster | undefined;

answerQuestions(
  async (question: Question): Promise<Answer> => {
    switch (question.kind) {
      case 'start': {
        cluster = await startClusterFor(question.port);
        const { version, folder, kubeconfig, server, ca, token } = cluster.plane;
        return {
          kind: 'started',
          version: version.gitVersion,
          folder,
          kubeconfigs: perUser(kubeconfig),
          endpoint: { server, ca, token: token('admin') },
        };
      }
      case 'audit': {
        const events = cluster?.plane.auditLog() ?? [];
        return { kind: 'audit', events: events.filter(({ user }) => isGatehouse(user.username)) };
      }
    }
  },
  async () => cluster?.stop(),
);
