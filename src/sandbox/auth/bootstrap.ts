import { ofJson, type ApiObject } from '../../machinery/api-object.ts';
import { RBAC_GROUP } from './rbac.ts';
import type { JsonObject } from '../../json/json.ts';

const NAMESPACES = ['default', 'kube-node-lease', 'kube-public', 'kube-system'];

export function bootstrapObjects(now: string, newUid: () => string): readonly ApiObject[] {
  const withIdentity = (name: string, { metadata, ...rest }: Declared): ApiObject =>
    ofJson({ ...rest, metadata: { ...metadata, name, uid: newUid(), creationTimestamp: now } });
  return [
    ...NAMESPACES.map((name) => withIdentity(name, declaredNamespace(name))),
    ...BOOTSTRAP_ROLES.map((role) => withIdentity(role.name, declaredRole(role))),
    ...BOOTSTRAP_BINDINGS.map((binding) => withIdentity(binding.name, declaredBinding(binding))),
  ];
}

type Declared = JsonObject & { readonly metadata: JsonObject };

const declaredNamespace = (name: string): Declared => ({
  apiVersion: 'v1',
  kind: 'Namespace',
  metadata: { labels: { 'kubernetes.io/metadata.name': name } },
  spec: { finalizers: ['kubernetes'] },
  status: { phase: 'Active' },
});

/** Marks objects that an API server resets to their defaults when it starts. */
const AUTO_UPDATE = { annotations: { 'rbac.authorization.kubernetes.io/autoupdate': 'true' } };

const BOOTSTRAPPED = { 'kubernetes.io/bootstrapping': 'rbac-defaults' };

const aggregateLabel = (to: string) => ({ [`${RBAC_GROUP}/aggregate-to-${to}`]: 'true' });

const declaredRole = ({ aggregates, aggregatedTo, rules }: BootstrapRole): Declared => ({
  apiVersion: `${RBAC_GROUP}/v1`,
  kind: 'ClusterRole',
  metadata: {
    labels: { ...BOOTSTRAPPED, ...(aggregatedTo === undefined ? {} : aggregateLabel(aggregatedTo)) },
    ...AUTO_UPDATE,
  },
  ...(aggregates === undefined
    ? {}
    : { aggregationRule: { clusterRoleSelectors: [{ matchLabels: aggregateLabel(aggregates) }] } }),
  rules,
});

const declaredBinding = ({ name, groups }: BootstrapBinding): Declared => ({
  apiVersion: `${RBAC_GROUP}/v1`,
  kind: 'ClusterRoleBinding',
  metadata: { labels: BOOTSTRAPPED, ...AUTO_UPDATE },
  roleRef: { apiGroup: RBAC_GROUP, kind: 'ClusterRole', name },
  subjects: groups.map((group) => ({ apiGroup: RBAC_GROUP, kind: 'Group', name: group })),
});

interface BootstrapRole {
  readonly name: string;
  /** Takes its rules from roles with the label `aggregate-to-<this>`. */
  readonly aggregates?: string;
  /** Adds its rules to the role that aggregates these. */
  readonly aggregatedTo?: string;
  readonly rules: readonly JsonObject[];
}

interface BootstrapBinding {
  /** The name of both the binding and its ClusterRole. */
  readonly name: string;
  readonly groups: readonly string[];
}

const READ = ['get', 'list', 'watch'];

const WRITE = ['create', 'delete', 'deletecollection', 'patch', 'update'];

const rule = (verbs: readonly string[], group: string, ...resources: readonly string[]): JsonObject => ({
  apiGroups: [group],
  resources,
  verbs,
});

const paths = (...urls: readonly string[]): JsonObject => ({
  nonResourceURLs: urls.toSorted(),
  verbs: ['get'],
});

const PUBLIC_PATHS = ['/healthz', '/livez', '/readyz', '/version', '/version/'];

/** kubernetes' rbac/bootstrappolicy, without the roles of components, and without kinds and paths that the sandbox does not serve. */
const BOOTSTRAP_ROLES: readonly BootstrapRole[] = [
  {
    name: 'cluster-admin',
    rules: [rule(['*'], '*', '*'), { nonResourceURLs: ['*'], verbs: ['*'] }],
  },
  { name: 'admin', aggregates: 'admin', rules: [] },
  { name: 'edit', aggregates: 'edit', aggregatedTo: 'admin', rules: [] },
  { name: 'view', aggregates: 'view', aggregatedTo: 'edit', rules: [] },
  {
    name: 'system:aggregate-to-admin',
    aggregatedTo: 'admin',
    rules: [
      rule(['create'], 'authorization.k8s.io', 'localsubjectaccessreviews'),
      rule([...WRITE, ...READ].sort(), 'rbac.authorization.k8s.io', 'rolebindings', 'roles'),
    ],
  },
  { name: 'system:aggregate-to-edit', aggregatedTo: 'edit', rules: editRules() },
  { name: 'system:aggregate-to-view', aggregatedTo: 'view', rules: viewRules() },
  {
    name: 'system:auth-delegator',
    rules: [
      rule(['create'], 'authentication.k8s.io', 'tokenreviews'),
      rule(['create'], 'authorization.k8s.io', 'subjectaccessreviews'),
    ],
  },
  {
    name: 'system:basic-user',
    rules: [
      rule(['create'], 'authorization.k8s.io', 'selfsubjectaccessreviews', 'selfsubjectrulesreviews'),
      rule(['create'], 'authentication.k8s.io', 'selfsubjectreviews'),
    ],
  },
  {
    name: 'system:discovery',
    rules: [paths('/api', '/api/*', '/apis', '/apis/*', '/openapi', '/openapi/*', ...PUBLIC_PATHS)],
  },
  { name: 'system:public-info-viewer', rules: [paths(...PUBLIC_PATHS)] },
];

/** @see kubernetes/plugin/pkg/auth/authorizer/rbac/bootstrappolicy/testdata/cluster-role-bindings.yaml */
const BOOTSTRAP_BINDINGS: readonly BootstrapBinding[] = [
  { name: 'cluster-admin', groups: ['system:masters'] },
  { name: 'system:basic-user', groups: ['system:authenticated'] },
  { name: 'system:discovery', groups: ['system:authenticated'] },
  { name: 'system:public-info-viewer', groups: ['system:authenticated', 'system:unauthenticated'] },
];

function editRules(): readonly JsonObject[] {
  return [
    rule(READ, '', 'secrets'),
    rule(['impersonate'], '', 'serviceaccounts'),
    rule(WRITE, '', 'configmaps', 'events', 'pods', 'secrets', 'serviceaccounts', 'services'),
    rule(['create'], '', 'serviceaccounts/token'),
    rule(WRITE, 'apps', ...['deployments', 'replicasets'].flatMap((name) => [name, `${name}/scale`])),
    rule(WRITE, 'policy', 'poddisruptionbudgets'),
    rule(WRITE, 'networking.k8s.io', 'ingresses', 'networkpolicies'),
    rule([...WRITE, ...READ].sort(), 'coordination.k8s.io', 'leases'),
  ];
}

function viewRules(): readonly JsonObject[] {
  const withStatus = (...resources: readonly string[]) =>
    resources.flatMap((resource) => [resource, `${resource}/status`]);
  return [
    rule(
      READ,
      '',
      ...['configmaps', 'endpoints', 'events', 'serviceaccounts'],
      ...withStatus('namespaces', 'pods', 'resourcequotas', 'services'),
    ),
    rule(READ, 'discovery.k8s.io', 'endpointslices'),
    rule(READ, 'apps', ...withStatus('deployments', 'replicasets'), 'deployments/scale', 'replicasets/scale'),
    rule(READ, 'policy', ...withStatus('poddisruptionbudgets')),
    rule(READ, 'networking.k8s.io', ...withStatus('ingresses'), 'networkpolicies'),
  ];
}
