/** What the user does while AdmissionReviews are recorded. */
import type { Kubectl } from '../kubectl.ts';

export interface Step {
  readonly name: string;
  /** Whether kubectl writes an object several times. */
  readonly isSequence?: boolean;
  readonly take: (kubectl: Kubectl) => Promise<unknown>;
}

const NAMESPACE = 'store';
const SERVERS = `/apis/infra.example.com/v1/namespaces/${NAMESPACE}/servers`;

/** Its units are beyond 2^53. */
const server = (metadata: object, datacenter = 'fra1', version = 'v1') => ({
  apiVersion: `infra.example.com/${version}`,
  kind: 'Server',
  metadata: { ...metadata, namespace: NAMESPACE, labels: { tier: 'x' }, annotations: { note: 'hi' } },
  spec: { datacenter, replicas: 2, serial: '1', units: 9_007_199_254_740_993n },
});

const POD = {
  apiVersion: 'v1',
  kind: 'Pod',
  metadata: { name: 'p', namespace: NAMESPACE },
  spec: { nodeName: 'n1', containers: [{ name: 'c', image: 'busybox' }] },
};

const EVICTION = {
  apiVersion: 'policy/v1',
  kind: 'Eviction',
  metadata: { name: 'p', namespace: NAMESPACE },
};

const CONFIG_MAP = { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: 'tmo2', namespace: 'default' } };

/** Takes the fields from their managers, as a tool does that restores an object. */
const MANAGED_FIELDS_PATCH = {
  metadata: {
    managedFields: [
      {
        manager: 'kubectl',
        operation: 'Update',
        apiVersion: 'infra.example.com/v1',
        time: '2026-01-01T00:00:00Z',
        fieldsType: 'FieldsV1',
        fieldsV1: { 'f:spec': { '.': {}, 'f:datacenter': {} } },
      },
    ],
  },
};

const GROUPS = ['system:masters', 'system:serviceaccounts:velero', 'system:serviceaccounts'];
const AS_VELERO = [
  '--as=system:serviceaccount:velero:velero',
  ...GROUPS.map((group) => `--as-group=${group}`),
].join(' ');

const step = (name: string, command: string, object?: object): Step => ({
  name,
  take: (kubectl) =>
    object === undefined
      ? kubectl.says(command, { namespace: NAMESPACE })
      : kubectl.says(`${command} -f -`, { namespace: NAMESPACE, stdin: object }),
});

const patch = (name: string, target: string, type: 'json' | 'merge', change: object): Step =>
  step(name, `patch servers ${target} --type=${type} -p '${JSON.stringify(change)}'`);

const SERVER_STEPS: readonly Step[] = [
  step('kubectl apply create', 'apply', server({ name: 'a' })),
  step('kubectl apply update', 'apply', server({ name: 'a' }, 'ams1')),
  {
    // kubectl then moves the fields of its client-side apply, in three more writes.
    ...step(
      'server-side apply update',
      'apply --server-side --force-conflicts',
      server({ name: 'a' }, 'lon1'),
    ),
    isSequence: true,
  },
  step('server-side apply that creates', 'apply --server-side', server({ name: 'b' })),
  patch('json patch', 'a', 'json', [{ op: 'add', path: '/metadata/labels/p', value: '1' }]),
  patch('merge patch adding a finalizer', 'a', 'merge', { metadata: { finalizers: ['example.com/f'] } }),
  patch('status update', 'a --subresource=status', 'merge', { status: { phase: 'Ready', replicas: 2 } }),
  step('scale', 'scale servers a --replicas=5'),
  step('create through the other version v1beta1', 'create', server({ name: 'c' }, 'fra1', 'v1beta1')),
  step('generateName', 'create', server({ generateName: 'gen-' })),
  step('dry run create', 'create --dry-run=server', server({ name: 'dry' })),
  step('impersonated service account with groups', `create ${AS_VELERO}`, server({ name: 'imp' })),
  patch('merge patch of managedFields only as a restore tool does', 'imp', 'merge', MANAGED_FIELDS_PATCH),
  step('delete with finalizer sets deletionTimestamp', 'delete servers a --wait=false'),
  patch('finalizer removal while deleting', 'a', 'merge', { metadata: { finalizers: null } }),
  step('delete', 'delete servers b'),
  step('deletecollection', `delete --raw ${SERVERS}`),
];

const BUILT_IN_STEPS: readonly Step[] = [
  step(
    'configmap whose keys are __proto__ and constructor',
    'create configmap proto --from-literal=__proto__=x --from-literal=constructor=y',
  ),
  step('namespace label update', `label namespace ${NAMESPACE} team=x`),
  {
    name: 'service account token request',
    take: async (kubectl) => {
      await kubectl.says('create serviceaccount robot', { namespace: NAMESPACE });
      await kubectl.says('create token robot', { namespace: NAMESPACE });
    },
  },
  {
    name: 'pod create',
    take: async (kubectl) => {
      await kubectl.says('wait --for=create serviceaccount/default', { namespace: NAMESPACE }); // a Pod needs it
      await kubectl.says('create -f -', { stdin: POD });
    },
  },
  {
    name: 'pod exec CONNECT',
    // No node runs the Pod. kubectl tries a WebSocket first, then SPDY.
    take: (kubectl) => kubectl.refuses('exec p -c c -- true', { namespace: NAMESPACE }),
  },
  step('pod eviction', `create --raw /api/v1/namespaces/${NAMESPACE}/pods/p/eviction`, EVICTION),
  step('crd update', 'label crd servers.infra.example.com seen=2 --overwrite'),
  step('namespace delete', `delete namespace ${NAMESPACE} --wait=false`),
  step(
    'client timeout of 3 seconds',
    'create --raw /api/v1/namespaces/default/configmaps?timeout=3s',
    CONFIG_MAP,
  ),
];

export const STEPS: readonly Step[] = [
  step('create namespace', `create namespace ${NAMESPACE}`),
  ...SERVER_STEPS,
  ...BUILT_IN_STEPS,
];
