/** What to tell people whose policy Gatehouse may not read the kinds of: the ClusterRole to add, ready to apply. */
import { groupResourceName, type GroupResource } from '../../api/meta.ts';

/** ClusterRoles with this label are collected by the aggregated ClusterRole `gatehouse-references`. */
export const AGGREGATION_LABEL = 'gatehouse.dev/aggregate-to-references';

export function missingAccessMessage(policy: string, forbidden: readonly GroupResource[]): string {
  const kinds = forbidden.map(groupResourceName).join(', ');
  return `Gatehouse may not get, list and watch ${kinds}. Add this ClusterRole:\n${clusterRoleFor(policy, forbidden)}`;
}

function clusterRoleFor(policy: string, forbidden: readonly GroupResource[]): string {
  const byGroup = Map.groupBy(forbidden, ({ group }) => group);
  const rules = [...byGroup].flatMap(([group, resources]) => [
    `  - apiGroups: [${JSON.stringify(group)}]`,
    `    resources: [${resources.map(({ resource }) => resource).join(', ')}]`,
    '    verbs: [get, list, watch]',
  ]);
  return [
    'apiVersion: rbac.authorization.k8s.io/v1',
    'kind: ClusterRole',
    'metadata:',
    `  name: gatehouse-references-${policy}`,
    '  labels:',
    `    ${AGGREGATION_LABEL}: "true"`,
    'rules:',
    ...rules,
  ].join('\n');
}
