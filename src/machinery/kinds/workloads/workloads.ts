import { IMMUTABLE_FIELDS, keepsImmutable } from '../../../api/immutable-fields.ts';
import { isEqual, type JsonObject } from '../../../json/json.ts';
import type { ApiObject } from '../../api-object.ts';
import {
  flag,
  records,
  text,
  number,
  section,
  spec,
  status,
  withFields,
  changed,
  has,
} from '../../fields.ts';
import type { PrinterColumn, ResourceType } from '../../resource-type.ts';
import type { Schema } from '../../schema/schema.ts';
import { AGE, builtInKind, column } from '../built-in-kind.ts';
import * as s from '../schema-builders.ts';
import type { Cause } from '../../failure.ts';
import { forbiddenValue, invalidValue, when } from '../../schema/causes.ts';

// The sandbox does not run pods. The schema has only lists that merge by key, atomic lists, and defaults that every pod shows.

const open = s.openObject({});

const PROBE = s.openObject({ exec: s.openObject({ command: s.STRINGS }) });

const CONTAINER = s.openObject({
  name: s.STRING,
  image: s.STRING,
  command: s.STRINGS,
  args: s.STRINGS,
  env: s.keyedList(s.openObject({ name: s.STRING, value: s.STRING }), ['name']),
  ports: s.keyedList(
    s.openObject({ name: s.STRING, containerPort: s.INT32, protocol: s.withDefault(s.STRING, 'TCP') }),
    ['containerPort', 'protocol'],
  ),
  resources: s.withDefault(open, {}),
  volumeMounts: s.keyedList(s.openObject({ name: s.STRING, mountPath: s.STRING }), ['mountPath']),
  livenessProbe: PROBE,
  readinessProbe: PROBE,
  startupProbe: PROBE,
  volumeDevices: s.keyedList(s.openObject({ name: s.STRING, devicePath: s.STRING }), ['devicePath']),
  terminationMessagePath: s.withDefault(s.STRING, '/dev/termination-log'),
  terminationMessagePolicy: s.withDefault(s.STRING, 'File'),
  imagePullPolicy: s.STRING,
});

const byName = (items: Schema) => s.keyedList(items, ['name']);
const NAMED = s.openObject({ name: s.STRING });

const POD_SPEC: Schema = s.openObject({
  containers: byName(CONTAINER),
  initContainers: byName(CONTAINER),
  ephemeralContainers: byName(CONTAINER),
  volumes: { ...byName(NAMED), 'x-kubernetes-patch-strategy': 'merge,retainKeys' },
  imagePullSecrets: byName(NAMED),
  resourceClaims: byName(NAMED),
  hostAliases: s.keyedList(s.openObject({ ip: s.STRING }), ['ip']),
  topologySpreadConstraints: s.keyedList(
    s.openObject({ topologyKey: s.STRING, whenUnsatisfiable: s.STRING }),
    ['topologyKey', 'whenUnsatisfiable'],
  ),
  nodeName: s.STRING,
  nodeSelector: s.atomic(s.STRINGS_BY_KEY),
  tolerations: s.listOf(open),
  serviceAccountName: s.STRING,
  serviceAccount: s.STRING,
  restartPolicy: s.withDefault(s.STRING, 'Always'),
  terminationGracePeriodSeconds: s.withDefault(s.INT64, 30),
  dnsPolicy: s.withDefault(s.STRING, 'ClusterFirst'),
  securityContext: s.withDefault(open, {}),
  schedulerName: s.withDefault(s.STRING, 'default-scheduler'),
});

const POD_TEMPLATE: Schema = s.object({
  metadata: s.openObject({ labels: s.STRINGS_BY_KEY, annotations: s.STRINGS_BY_KEY }),
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
  fields: { spec: POD_SPEC, status: s.openObject({ phase: s.STRING, conditions: s.CONDITIONS }) },
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
    validateUpdate: podUpdateProblems,
  },
});

/** Follows ValidatePodUpdate; the API server adds a diff of its structs to the last message. */
function podUpdateProblems(pod: ApiObject, old: ApiObject): readonly Cause[] {
  const [is, was] = [spec(pod), spec(old)];
  const resized = ['containers', 'initContainers'].find(
    (name) => records(is, name).length !== records(was, name).length,
  );
  if (resized !== undefined)
    return [forbiddenValue(`spec.${resized}`, 'pod updates may not add or remove containers')];
  const [deadline, before] = [is, was].map((one) => number(one, 'activeDeadlineSeconds'));
  const field = 'spec.activeDeadlineSeconds';
  if (before !== undefined && (deadline ?? 0) > before)
    return [invalidValue(field, deadline ?? null, 'must be less than or equal to previous value')];
  const untimed = (one: JsonObject) => changed(one, { tolerationSeconds: undefined });
  const tolerated = records(is, 'tolerations').map(untimed);
  const gates = records(was, 'schedulingGates').map((gate) => text(gate, 'name'));
  const isLost = (one: JsonObject) => !tolerated.some((other) => isEqual(other, untimed(one)));
  return [
    ...when(
      before !== undefined && deadline === undefined,
      invalidValue(field, null, 'must not update from a positive integer to nil value'),
    ),
    ...when(
      records(was, 'tolerations').some(isLost),
      forbiddenValue(
        'spec.tolerations',
        'existing toleration can not be modified except its tolerationSeconds',
      ),
    ),
    ...records(is, 'schedulingGates').flatMap((gate, index) => {
      const name = text(gate, 'name');
      const why = `only deletion is allowed, but found new scheduling gate '${name}'`;
      return when(!gates.includes(name), forbiddenValue(`spec.schedulingGates[${index}].name`, why));
    }),
    ...when(
      !OF_PODS.every((row) =>
        keepsImmutable({ spec: was }, { spec: withSettled(is, was, gates.length > 0) }, row),
      ),
      forbiddenValue('spec', `pod updates may not change fields other than ${POD_UPDATES}`),
    ),
  ];
}

const OF_PODS = IMMUTABLE_FIELDS.filter(({ group, resource }) => group === '' && resource === 'pods');
const POD_UPDATES =
  '`spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)';

/** With the old values of the fields that can change in some states. A gated Pod can get node selectors. */
function withSettled(is: JsonObject, was: JsonObject, isGated: boolean): JsonObject {
  const { terminationGracePeriodSeconds: grace, nodeSelector, affinity } = was;
  const isCorrected = (number(was, 'terminationGracePeriodSeconds') ?? 0) < 0;
  return changed(is, {
    ...(isCorrected && is.terminationGracePeriodSeconds === 1
      ? { terminationGracePeriodSeconds: grace }
      : {}),
    ...(isGated ? { nodeSelector, affinity } : {}),
  });
}

/** imagePullPolicy defaults to Always for an image without a fixed tag, because such an image may change. */
const withPullPolicies = (podSpec: JsonObject): JsonObject =>
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

/** The selector is immutable, because a new selector would orphan the existing pods. */
function workloadUpdateProblems(workload: ApiObject, old: ApiObject): readonly Cause[] {
  const selector = section(workload, 'spec', 'selector');
  return when(
    !isEqual(selector, section(old, 'spec', 'selector')),
    invalidValue('spec.selector', selector, 'field is immutable'),
  );
}

// Stored only: no controller creates pods for them.

const SCALE = {
  specReplicasPath: '.spec.replicas',
  statusReplicasPath: '.status.replicas',
} as const;

const statusNumber = (name: string) => (workload: ApiObject) => number(status(workload), name) ?? 0;

const wantedReplicas = (workload: ApiObject) => number(spec(workload), 'replicas') ?? 0;

export const DEPLOYMENT: ResourceType = builtInKind({
  apiVersion: 'apps/v1',
  kind: 'Deployment',
  resource: 'deployments',
  namespaced: true,
  shortNames: ['deploy'],
  categories: ['all'],
  description: 'Pods of one template, and how a new template takes the place of an old one.',
  fields: {
    spec: s.object({
      replicas: s.withDefault(s.INT32, 1),
      selector: s.LABEL_SELECTOR,
      template: POD_TEMPLATE,
      strategy: {
        ...s.object({
          type: s.STRING,
          rollingUpdate: s.object({ maxUnavailable: s.INT_OR_STRING, maxSurge: s.INT_OR_STRING }),
        }),
        'x-kubernetes-patch-strategy': 'retainKeys',
        default: {},
      },
      minReadySeconds: s.INT32,
      revisionHistoryLimit: s.withDefault(s.INT32, 10),
      paused: s.BOOLEAN,
      progressDeadlineSeconds: s.withDefault(s.INT32, 600),
    }),
    status: s.openObject({ conditions: s.CONDITIONS }),
  },
  columns: [
    column(
      'Ready',
      'How many pods are ready, of how many.',
      (workload) => `${statusNumber('readyReplicas')(workload)}/${wantedReplicas(workload)}`,
    ),
    column('Up-to-date', 'How many pods are of the newest template.', statusNumber('updatedReplicas')),
    column('Available', 'How many pods have been ready for long enough.', statusNumber('availableReplicas')),
    AGE,
  ],
  hasStatus: true,
  scale: SCALE,
  strategy: {
    countsGenerations: true,
    completeDefaults: (deployment) => withPulls(withRollout(deployment)),
    prepareForCreate: (deployment) => withFields(deployment, { status: {} }),
    validateUpdate: workloadUpdateProblems,
  },
});

export const REPLICA_SET: ResourceType = builtInKind({
  apiVersion: 'apps/v1',
  kind: 'ReplicaSet',
  resource: 'replicasets',
  namespaced: true,
  shortNames: ['rs'],
  categories: ['all'],
  description: 'A number of pods of one template.',
  fields: {
    spec: s.object({
      replicas: s.withDefault(s.INT32, 1),
      minReadySeconds: s.INT32,
      selector: s.LABEL_SELECTOR,
      template: POD_TEMPLATE,
    }),
    status: s.openObject({ conditions: s.CONDITIONS }),
  },
  columns: [
    column('Desired', 'How many pods there should be.', wantedReplicas, 'integer'),
    column('Current', 'How many pods there are.', statusNumber('replicas'), 'integer'),
    column('Ready', 'How many pods are ready.', statusNumber('readyReplicas'), 'integer'),
    AGE,
  ],
  hasStatus: true,
  scale: SCALE,
  selectableFields: { 'status.replicas': (set) => String(statusNumber('replicas')(set)) },
  strategy: {
    countsGenerations: true,
    completeDefaults: withPulls,
    prepareForCreate: (set) => withFields(set, { status: { replicas: 0 } }),
    validateUpdate: workloadUpdateProblems,
  },
});

/** The strategy defaults to a rolling update of 25 % of the pods (pkg/apis/apps/v1/defaults.go). */
function withRollout(deployment: ApiObject): ApiObject {
  const given = spec(deployment);
  const told = section(given, 'strategy');
  const type = text(told, 'type') || 'RollingUpdate';
  const rolling: JsonObject = { maxUnavailable: '25%', maxSurge: '25%', ...section(told, 'rollingUpdate') };
  const strategy = changed(told, { type, ...(type === 'RollingUpdate' ? { rollingUpdate: rolling } : {}) });
  return withFields(deployment, { spec: changed(given, { strategy }) });
}

function withPulls(workload: ApiObject): ApiObject {
  const template = section(workload, 'spec', 'template');
  if (!has(template, 'spec')) return workload;
  const pulling = changed(template, { spec: withPullPolicies(section(template, 'spec')) });
  return withFields(workload, { spec: changed(spec(workload), { template: pulling }) });
}

/** policy/v1 PodDisruptionBudget: stored; the sandbox does not evict pods. */
export const POD_DISRUPTION_BUDGET: ResourceType = builtInKind({
  apiVersion: 'policy/v1',
  kind: 'PodDisruptionBudget',
  resource: 'poddisruptionbudgets',
  namespaced: true,
  shortNames: ['pdb'],
  description: 'How many of some pods may be away at a time.',
  fields: {
    spec: s.withDefault(
      s.openObject({ selector: { ...s.LABEL_SELECTOR, 'x-kubernetes-patch-strategy': 'replace' } }),
      {},
    ),
    status: s.openObject({ conditions: s.CONDITIONS }),
  },
  hasStatus: true,
  strategy: {
    countsGenerations: true,
    prepareForCreate: (budget) =>
      withFields(budget, {
        status: { disruptionsAllowed: 0, currentHealthy: 0, desiredHealthy: 0, expectedPods: 0 },
      }),
  },
});
