import { INSTALLATION_ROLE } from '../../../src/admission/webhooks/installation-owner.ts';
import { clusterRoles } from '../../../src/kube/well-known.ts';
import { merges, owner, type Attempt } from './attack.ts';

const roleAttack = (name: string, patch: object): Attempt => ({
  name,
  write: merges(clusterRoles, INSTALLATION_ROLE, patch),
});

export const ON_INSTALLATION: readonly Attempt[] = [
  roleAttack('rules', { rules: [{ apiGroups: [''], resources: ['secrets'], verbs: ['get'] }] }),
  roleAttack('a label that aggregates the role', {
    metadata: { labels: { 'rbac.authorization.k8s.io/aggregate-to-view': 'true' } },
  }),
  roleAttack('another owner', { metadata: { ownerReferences: [owner('thief')] } }),
  // Last, because the administrator then also deletes it.
  {
    name: 'the role, deleted',
    write: (client) => client.delete(clusterRoles, { name: INSTALLATION_ROLE }),
  },
];
