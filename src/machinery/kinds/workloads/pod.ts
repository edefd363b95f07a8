import { isEqual, type JsonObject } from '../../../json/json.ts';
import type { ApiObject } from '../../api-object.ts';
import { flag, records, text, number, section, spec, status, withFields } from '../../fields.ts';
import type { PrinterColumn, ResourceType } from '../../resource-type.ts';
import type { Schema } from '../../schema/schema.ts';
import { AGE, builtInKind, column, wideColumn } from '../built-in-kind.ts';
import {
  atomic,
  CONDITIONS,
  INT32,
  INT64,
  keyedList,
  listOf,
  object,
  openObject,
  STRING,
  STRINGS,
  STRINGS_BY_KEY,
  withDefault,
} from '../schema-builders.ts';

// The sandbox does not run pods. The schema has only lists that merge by key, atomic lists, and defaults that every pod shows.

const open = openObject({});

const PROBE = openObject({ exec: openObject({ command: STRINGS }) });

const CONTAINER = openObject({
  name: STRING,
  image: STRING,
  command: STRINGS,
  args: STRINGS,
  env: keyedList(openObject({ name: STRING, value: STRING }), ['name']),
  ports: keyedList(openObject({ name: STRING, containerPort: INT32, protocol: withDefault(STRING, 'TCP') }), [
    'containerPort',
    'protocol',
  ]),
  resources: withDefault(open, {}),
  volumeMounts: keyedList(openObject({ name: STRING, mountPath: STRING }), ['mountPath']),
  ...{ livenessProbe: PROBE, readinessProbe: PROBE, startupProbe: PROBE },
  volumeDevices: keyedList(openObject({ name: STRING, devicePath: STRING }), ['devicePath']),
  terminationMessagePath: withDefault(STRING, '/dev/termination-log'),
  terminationMessagePolicy: withDefault(STRING, 'File'),
  imagePullPolicy: STRING,
});

const byName = (items: Schema) => keyedList(items, ['name']);
const NAMED = openObject({ name: STRING });

const POD_SPEC: Schema = openObject({
  containers: byName(CONTAINER),
  initContainers: byName(CONTAINER),
  ephemeralContainers: byName(CONTAINER),
  volumes: { ...byName(NAMED), 'x-kubernetes-patch-strategy': 'merge,retainKeys' },
  imagePullSecrets: byName(NAMED),
  resourceClaims: byName(NAMED),
  hostAliases: keyedList(openObject({ ip: STRING }), ['ip']),
  topologySpreadConstraints: keyedList(openObject({ topologyKey: STRING, whenUnsatisfiable: STRING }), [
    'topologyKey',
    'whenUnsatisfiable',
  ]),
  nodeName: STRING,
  nodeSelector: atomic(STRINGS_BY_KEY),
  tolerations: listOf(open),
  serviceAccountName: STRING,
  serviceAccount: STRING,
  restartPolicy: withDefault(STRING, 'Always'),
  terminationGracePeriodSeconds: withDefault(INT64, 30),
  dnsPolicy: withDefault(STRING, 'ClusterFirst'),
  securityContext: withDefault(open, {}),
  schedulerName: withDefault(STRING, 'default-scheduler'),
});

export const POD_TEMPLATE: Schema = object({
  metadata: openObject({ labels: STRINGS_BY_KEY, annotations: STRINGS_BY_KEY }),
  spec: POD_SPEC,
});

function withContainers(podSpec: JsonObject, change: (container: JsonObject) => JsonObject): JsonObject {
  const lists = ['containers', 'initContainers'].filter((name) => Array.isArray(podSpec[name]));
  return {
    ...podSpec,
    ...Object.fromEntries(lists.map((name) => [name, records(podSpec, name).map(change)])),
  };
}

/** A limit without a request is also the request. */
function withRequests(container: JsonObject): JsonObject {
  const limits = section(container, 'resources', 'limits');
  if (Object.keys(limits).length === 0) return container;
  const requests = { ...limits, ...section(container, 'resources', 'requests') };
  return { ...container, resources: { ...section(container, 'resources'), requests } };
}

const COUNTED = ['cpu', 'memory'];

/** Follows ComputePodQOS of k8s.io/kubernetes/pkg/apis/core/helper/qos. */
function qosClassOf(podSpec: JsonObject): 'BestEffort' | 'Burstable' | 'Guaranteed' {
  const all = ['containers', 'initContainers'].flatMap((name) => records(podSpec, name));
  const counted = (container: JsonObject, field: string): JsonObject =>
    Object.fromEntries(
      Object.entries(section(container, 'resources', field)).filter(
        ([name, amount]) => COUNTED.includes(name) && amount !== '0' && amount !== 0,
      ),
    );
  const resources = all.map((one) => ({
    limits: counted(one, 'limits'),
    requests: counted(one, 'requests'),
  }));
  const isEmpty = (amounts: JsonObject) => Object.keys(amounts).length === 0;
  if (resources.every(({ limits, requests }) => isEmpty(limits) && isEmpty(requests))) return 'BestEffort';
  const isFixed = resources.every(
    ({ limits, requests }) =>
      COUNTED.every((name) => Object.hasOwn(limits, name)) && isEqual(limits, requests),
  );
  return isFixed ? 'Guaranteed' : 'Burstable';
}

const POD_COLUMNS: readonly PrinterColumn[] = [
  column('Ready', 'How many containers are ready, of how many.', shownReady),
  column('Status', 'What it is doing.', shownStatus),
  column('Restarts', 'How often its containers were started again.', (pod) =>
    String(containerStates(pod).reduce((sum, state) => sum + (number(state, 'restartCount') ?? 0), 0)),
  ),
  AGE,
  wideColumn('IP', 'Its address.', (pod) => text(status(pod), 'podIP') || '<none>'),
  wideColumn('Node', 'Where it runs.', (pod) => text(spec(pod), 'nodeName') || '<none>'),
];

/** v1 Pod: stored but not run. */
export const POD: ResourceType = builtInKind({
  apiVersion: 'v1',
  kind: 'Pod',
  resource: 'pods',
  namespaced: true,
  shortNames: ['po'],
  categories: ['all'],
  description: 'Containers that run together on one node.',
  fields: { spec: POD_SPEC, status: openObject({ phase: STRING, conditions: CONDITIONS }) },
  columns: POD_COLUMNS,
  hasStatus: true,
  selectableFields: {
    'spec.nodeName': (pod) => text(spec(pod), 'nodeName'),
    'spec.restartPolicy': (pod) => text(spec(pod), 'restartPolicy'),
    'spec.schedulerName': (pod) => text(spec(pod), 'schedulerName'),
    'spec.serviceAccountName': (pod) => text(spec(pod), 'serviceAccountName'),
    'spec.hostNetwork': (pod) => String(flag(spec(pod), 'hostNetwork')),
    'status.phase': (pod) => text(status(pod), 'phase'),
    'status.podIP': (pod) => text(status(pod), 'podIP'),
    'status.nominatedNodeName': (pod) => text(status(pod), 'nominatedNodeName'),
  },
  strategy: {
    countsGenerations: true,
    completeDefaults: (pod) =>
      withFields(pod, { spec: withContainers(withPullPolicies(spec(pod)), withRequests) }),
    prepareForCreate: (pod) =>
      withFields(pod, { status: { phase: 'Pending', qosClass: qosClassOf(spec(pod)) } }),
  },
});

/** imagePullPolicy defaults to Always for an image without a fixed tag, because such an image may change. */
export const withPullPolicies = (podSpec: JsonObject): JsonObject =>
  withContainers(podSpec, (container) => {
    const image = text(container, 'image');
    if (image === '' || text(container, 'imagePullPolicy') !== '') return container;
    const path = image.slice(image.lastIndexOf('/') + 1);
    const floating = !path.includes('@') && (!path.includes(':') || path.endsWith(':latest'));
    return { ...container, imagePullPolicy: floating ? 'Always' : 'IfNotPresent' };
  });

const containerStates = (pod: ApiObject) => records(status(pod), 'containerStatuses');

function shownReady(pod: ApiObject): string {
  const ready = containerStates(pod).filter((state) => flag(state, 'ready')).length;
  return `${ready}/${records(spec(pod), 'containers').length}`;
}

function shownStatus(pod: ApiObject): string {
  if (pod.metadata.deletionTimestamp !== undefined) return 'Terminating';
  const reasons = containerStates(pod).flatMap((found) =>
    ['waiting', 'terminated'].map((state) => text(section(found, 'state', state), 'reason')),
  );
  const said = [...reasons, text(status(pod), 'reason'), text(status(pod), 'phase')];
  return said.find((word) => word !== '') ?? '';
}
