/** Whether this process may read a kind. Many policies need the same kinds, so answers are shared. */
import { groupResourceName, type GroupResource } from '../../json/kube-object.ts';
import { memoizeAsync } from '../../json/memoize-async.ts';
import { canI } from '../../kube/access.ts';
import type { KubeClient } from '../../kube/client.ts';
import { orAborted } from '../../kube/clock.ts';

export type ReadAccess = (resource: GroupResource, signal: AbortSignal) => Promise<boolean>;

/**
 * How long an answer is cached, in milliseconds. At start a replica compiles hundreds of policies, each with two kinds
 * and three verbs.
 */
const FRESH_MS = 10_000;

/** Caches positive answers only: a missing ClusterRole may be created at any time. */
export function createReadAccess(client: Pick<KubeClient, 'create'>, now: () => number): ReadAccess {
  const access = memoizeAsync((resource: GroupResource) => mayRead(client, resource), groupResourceName, {
    now,
    ttlMs: FRESH_MS,
    ttlOf: (allowed) => (allowed ? FRESH_MS : 0),
  });
  return async (resource, signal) => {
    signal.throwIfAborted();
    return orAborted(access.read(resource), signal);
  };
}

/** Whether this process may get, list and watch the kind. */
export async function mayRead(
  client: Pick<KubeClient, 'create'>,
  { group, resource }: GroupResource,
  signal?: AbortSignal,
): Promise<boolean> {
  const answers = await Promise.all(
    ['get', 'list', 'watch'].map((verb) => canI(client, { verb, group, resource }, { signal })),
  );
  return answers.every(Boolean);
}

/** The aggregated ClusterRole `gatehouse-references` collects the rules of ClusterRoles with this label. */
export const AGGREGATION_LABEL = 'gatehouse.dev/aggregate-to-references';

/** The message for a policy author: the kinds that Gatehouse may not read, and a ClusterRole to apply. */
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
