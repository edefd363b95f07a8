import { ofJson, type ApiObject } from '../../machinery/api-object.ts';
import {
  BOOTSTRAP_BINDINGS,
  BOOTSTRAP_ROLES,
  type BootstrapBinding,
  type BootstrapRole,
} from './bootstrap-roles.ts';
import { RBAC_GROUP } from './rbac.ts';

const NAMESPACES = ['default', 'kube-node-lease', 'kube-public', 'kube-system'];

/** Values that all bootstrap objects share. `now` is RFC 3339 with second precision. */
export interface BootstrapOptions {
  readonly now: string;
  readonly newUid: () => string;
}

/**
 * The initial namespaces, ClusterRoles and ClusterRoleBindings of a cluster. The aggregation controller fills in the
 * rules of admin, edit and view.
 */
export function bootstrapObjects(options: BootstrapOptions): readonly ApiObject[] {
  return [
    ...NAMESPACES.map((name) => namespaceObject(name, options)),
    ...BOOTSTRAP_ROLES.map((role) => roleObject(role, options)),
    ...BOOTSTRAP_BINDINGS.map((binding) => bindingObject(binding, options)),
  ];
}

const identity = (name: string, { now, newUid }: BootstrapOptions) => ({
  name,
  uid: newUid(),
  creationTimestamp: now,
});

function namespaceObject(name: string, options: BootstrapOptions): ApiObject {
  return ofJson({
    apiVersion: 'v1',
    kind: 'Namespace',
    metadata: { ...identity(name, options), labels: { 'kubernetes.io/metadata.name': name } },
    spec: { finalizers: ['kubernetes'] },
    status: { phase: 'Active' },
  });
}

/** Marks objects that an API server resets to their defaults when it starts. */
const AUTO_UPDATE = { annotations: { 'rbac.authorization.kubernetes.io/autoupdate': 'true' } };
const BOOTSTRAPPED = { 'kubernetes.io/bootstrapping': 'rbac-defaults' };

const aggregateLabel = (to: string) => ({ [`${RBAC_GROUP}/aggregate-to-${to}`]: 'true' });

function roleObject(
  { name, aggregates, aggregatedTo, rules }: BootstrapRole,
  options: BootstrapOptions,
): ApiObject {
  const labels = { ...BOOTSTRAPPED, ...(aggregatedTo === undefined ? {} : aggregateLabel(aggregatedTo)) };
  return ofJson({
    apiVersion: `${RBAC_GROUP}/v1`,
    kind: 'ClusterRole',
    metadata: { ...identity(name, options), labels, ...AUTO_UPDATE },
    ...(aggregates === undefined
      ? {}
      : { aggregationRule: { clusterRoleSelectors: [{ matchLabels: aggregateLabel(aggregates) }] } }),
    rules,
  });
}

function bindingObject({ name, groups }: BootstrapBinding, options: BootstrapOptions): ApiObject {
  return ofJson({
    apiVersion: `${RBAC_GROUP}/v1`,
    kind: 'ClusterRoleBinding',
    metadata: { ...identity(name, options), labels: BOOTSTRAPPED, ...AUTO_UPDATE },
    roleRef: { apiGroup: RBAC_GROUP, kind: 'ClusterRole', name },
    subjects: groups.map((group) => ({ apiGroup: RBAC_GROUP, kind: 'Group', name: group })),
  });
}
