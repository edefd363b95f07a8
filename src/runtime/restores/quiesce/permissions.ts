import { groupResourceName, type GroupResource } from '../../../json/kube-object.ts';

/** For the account of the leader only: the webhook replicas pause nothing. @param user the name of that account */
export function permissionsFor(kinds: readonly GroupResource[], user: string): string {
  const rules = kinds.flatMap(({ group, resource }) => [
    `  - apiGroups: [${JSON.stringify(group)}]`,
    `    resources: [${resource}]`,
    '    verbs: [list, patch]',
    // The backstop (deploy/components/backstop) lets Gatehouse pause only these workloads.
    '  - apiGroups: [gatehouse.dev]',
    '    resources: [quiescedkinds]',
    `    resourceNames: [${groupResourceName({ group, resource })}]`,
    '    verbs: [pause]',
  ]);
  const [, namespace, name] = /^system:serviceaccount:([^:]+):([^:]+)$/.exec(user) ?? [];
  const subject =
    namespace === undefined || name === undefined
      ? `{ kind: User, apiGroup: rbac.authorization.k8s.io, name: ${JSON.stringify(user)} }`
      : `{ kind: ServiceAccount, namespace: ${namespace}, name: ${name} }`;
  return [
    `Gatehouse may not list, patch and pause ${kinds.map(groupResourceName).join(', ')}. Apply:`,
    'apiVersion: rbac.authorization.k8s.io/v1',
    'kind: ClusterRole',
    'metadata: { name: gatehouse-quiesce }',
    'rules:',
    ...rules,
    '---',
    'apiVersion: rbac.authorization.k8s.io/v1',
    'kind: ClusterRoleBinding',
    'metadata: { name: gatehouse-quiesce }',
    'roleRef: { apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: gatehouse-quiesce }',
    `subjects: [${subject}]`,
  ].join('\n');
}
