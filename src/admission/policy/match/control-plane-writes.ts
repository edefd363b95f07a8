/** Finds what Kubernetes itself writes among the governed objects: if a policy refuses these writes, the cluster stops. */
import type { CompiledPolicy } from '../compiled-policy.ts';
import { covers } from './resource-pattern.ts';

interface Writes {
  readonly group: string;
  readonly resource: string;
  /** Default: CREATE and UPDATE. */
  readonly operation?: 'CREATE' | 'UPDATE';
  readonly users?: readonly string[];
  readonly groups?: readonly string[];
  readonly names?: readonly string[];
  readonly otherwise: string;
}

const controller = (...names: readonly string[]): Pick<Writes, 'users'> => ({
  users: [
    ...names.map((name) => `system:serviceaccount:kube-system:${name}`),
    'system:kube-controller-manager',
  ],
});
const KUBELET = { groups: ['system:nodes'] };
const SCHEDULER = { users: ['system:kube-scheduler'] };
const API_SERVER = 'system:apiserver';
const EVENTS = {
  resource: 'events',
  groups: ['system:nodes', 'system:serviceaccounts:kube-system'],
  otherwise: 'Events of Kubernetes are lost',
};
const NO_POD_STARTS = 'no pod of the namespace starts';
const NOT_SCHEDULED = 'no pod is scheduled';

/** In the order of their effect. Pods are not among them: their authors are users. */
const CONTROL_PLANE: readonly Writes[] = [
  {
    group: '',
    resource: 'configmaps',
    names: ['kube-root-ca.crt'],
    ...controller('root-ca-cert-publisher'),
    otherwise: NO_POD_STARTS,
  },
  {
    group: '',
    resource: 'serviceaccounts',
    names: ['default'],
    ...controller('service-account-controller'),
    otherwise: NO_POD_STARTS,
  },
  {
    group: '',
    resource: 'serviceaccounts/token',
    operation: 'CREATE',
    ...KUBELET,
    otherwise: NO_POD_STARTS,
  },
  { group: '', resource: 'pods/binding', operation: 'CREATE', ...SCHEDULER, otherwise: NOT_SCHEDULED },
  { group: '', resource: 'bindings', operation: 'CREATE', ...SCHEDULER, otherwise: NOT_SCHEDULED },
  { group: '', resource: 'pods/status', operation: 'UPDATE', ...KUBELET, otherwise: 'no pod becomes ready' },
  {
    group: '',
    resource: 'endpoints',
    ...controller('endpoint-controller'),
    otherwise: 'Services lead to pods that are gone',
  },
  {
    group: 'discovery.k8s.io',
    resource: 'endpointslices',
    ...controller('endpointslice-controller', 'endpointslicemirroring-controller'),
    otherwise: 'Services lead to pods that are gone',
  },
  {
    group: 'apps',
    resource: 'replicasets',
    ...controller('deployment-controller'),
    otherwise: 'no Deployment is rolled out',
  },
  { group: 'storage.k8s.io', resource: 'csinodes', ...KUBELET, otherwise: 'nodes cannot use volume drivers' },
  {
    group: 'storage.k8s.io',
    resource: 'volumeattachments',
    ...controller('attachdetach-controller'),
    otherwise: 'no volume is attached',
  },
  {
    group: 'rbac.authorization.k8s.io',
    resource: 'clusterroles',
    users: [...(controller('clusterrole-aggregation-controller').users ?? []), API_SERVER],
    otherwise: 'the API server cannot repair its roles when it starts',
  },
  {
    group: 'flowcontrol.apiserver.k8s.io',
    resource: 'flowschemas',
    users: [API_SERVER],
    otherwise: 'the API server cannot repair its limits when it starts',
  },
  { group: '', ...EVENTS },
  { group: 'events.k8s.io', ...EVENTS },
];

/** One message for each kind: what stops, and the match condition that prevents it. */
export function controlPlaneWrites({
  match,
  spec,
}: Pick<CompiledPolicy, 'match' | 'spec'>): readonly string[] {
  const { validate = {}, enforcement = 'Deny' } = spec;
  const refuses = enforcement === 'Deny' && Object.keys(validate).length > 0;
  if (!refuses && match.failurePolicy === 'Ignore') return [];
  if (selectsByLabel(match.objectSelector)) return [];
  const conditions = match.matchConditions.map(({ expression }) => expression).join('\n');
  return CONTROL_PLANE.filter(
    ({ group, resource, operation, users = [], groups = [], names = [] }) =>
      match.apiGroups.includes(group) &&
      match.resources.some((pattern) => covers(pattern, resource)) &&
      match.operations.some((one) => one !== 'DELETE' && (operation ?? one) === one) &&
      ![...users, ...groups].some((name) => conditions.includes(name)) &&
      !names.some((name) => comparesName(conditions, name)),
  ).map(
    (one) =>
      `Kubernetes also writes ${one.resource}, and while these writes are refused, ${one.otherwise}: add the match condition ${conditionAgainst(one)}`,
  );
}

/** `default` alone is also the name of a namespace. */
const comparesName = (conditions: string, name: string): boolean =>
  conditions
    .split(/&&|\|\||\n/)
    .some((part) => /\.name\b/.test(part) && [`'${name}'`, `"${name}"`].some((text) => part.includes(text)));

/** Kubernetes does not know the labels that users choose. */
const selectsByLabel = ({
  matchLabels = {},
  matchExpressions = [],
}: CompiledPolicy['match']['objectSelector']): boolean =>
  Object.keys(matchLabels).length > 0 ||
  matchExpressions.some(({ operator }) => operator === 'In' || operator === 'Exists');

function conditionAgainst({ users = [], groups = [] }: Writes): string {
  const quoted = (names: readonly string[]) => names.map((name) => `'${name}'`).join(', ');
  return [
    ...(users.length === 0 ? [] : [`!(request.userInfo.username in [${quoted(users)}])`]),
    ...groups.map((group) => `!('${group}' in request.userInfo.groups)`),
  ].join(' && ');
}
