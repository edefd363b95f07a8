/** Each User gets a Namespace, a quota in it, and the right to work there. */
import { defineController } from '@gatehouse-dev/gatehouse';

interface User {
  metadata: { name: string };
  spec: { mail: string; cpu?: string };
}

const RBAC = 'rbac.authorization.k8s.io';

export default defineController<User>({
  watch: { apiGroups: ['people.example.com'], apiVersions: ['v1'], resources: ['users'] },
  owns: [
    { apiGroups: [''], apiVersions: ['v1'], resources: ['namespaces', 'resourcequotas'] },
    { apiGroups: [RBAC], apiVersions: ['v1'], resources: ['rolebindings'] },
  ],
  // To bind a role, Gatehouse needs its permissions or this one.
  rules: [{ apiGroups: [RBAC], resources: ['clusterroles'], resourceNames: ['edit'], verbs: ['bind'] }],

  async reconcile({ metadata: { name }, spec }, { apply, condition }) {
    const labels = { 'people.example.com/owner': name };
    await apply({ apiVersion: 'v1', kind: 'Namespace', metadata: { name, labels } });
    condition('NamespaceReady', 'True', 'Applied');
    await apply({
      apiVersion: 'v1',
      kind: 'ResourceQuota',
      metadata: { name: 'user', namespace: name },
      spec: { hard: { 'requests.cpu': spec.cpu ?? '2' } },
    });
    await apply({
      apiVersion: `${RBAC}/v1`,
      kind: 'RoleBinding',
      metadata: { name: 'user', namespace: name },
      roleRef: { apiGroup: RBAC, kind: 'ClusterRole', name: 'edit' },
      subjects: [{ apiGroup: RBAC, kind: 'User', name: spec.mail }],
    });
  },

  async finalize({ metadata: { name } }, { remove }) {
    await remove({ apiVersion: 'v1', kind: 'Namespace', metadata: { name } });
  },
});
