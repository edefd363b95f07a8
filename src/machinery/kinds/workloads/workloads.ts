import { isEqual, type JsonObject } from '../../../json/json.ts';
import type { ApiObject } from '../../api-object.ts';
import {
  records,
  text,
  changed,
  has,
  number,
  section,
  spec,
  status,
  withFields,
  record,
  stringMap,
  value,
} from '../../fields.ts';
import type { PrinterColumn, ResourceType } from '../../resource-type.ts';
import { AGE, builtInKind, column, wideColumn } from '../built-in-kind.ts';
import { containerProblems, POD_TEMPLATE, withPullPolicies } from './pod.ts';
import {
  BOOLEAN,
  CONDITIONS,
  INT32,
  INT64,
  INT_OR_STRING,
  LABEL_SELECTOR,
  mapOf,
  object,
  STRING,
  TIME,
  withDefault,
} from '../schema-builders.ts';
import { selectorProblems, shownSelector } from '../../selectors/label-selector.ts';
import { matchesSelector, normaliseSelector } from '../../../json/label-selector.ts';
import type { Cause } from '../../failure.ts';
import { invalidValue, requiredValue, when } from '../../schema/causes.ts';

/** The problems of a Deployment or ReplicaSet (pkg/apis/apps/validation). */
function workloadProblems(workload: ApiObject): readonly Cause[] {
  const template = section(workload, 'spec', 'template');
  return [
    ...notNegative(workload, 'replicas'),
    ...notNegative(workload, 'minReadySeconds'),
    ...selectionProblems(workload),
    ...containerProblems(section(template, 'spec'), 'spec.template.spec'),
  ];
}

function notNegative(workload: ApiObject, name: string): readonly Cause[] {
  const count = number(spec(workload), name) ?? 0;
  return when(count < 0, invalidValue(`spec.${name}`, count, 'must be greater than or equal to 0'));
}

/** The selector must not be empty and must match the labels of the pod template. */
function selectionProblems(workload: ApiObject): readonly Cause[] {
  const selector = record(spec(workload), 'selector');
  const labels = stringMap(section(workload, 'spec', 'template', 'metadata'), 'labels');
  const mismatch = invalidValue(
    'spec.template.metadata.labels',
    Object.keys(labels).length === 0 ? null : labels,
    '`selector` does not match template `labels`',
  );
  if (selector === undefined) return [requiredValue('spec.selector'), mismatch];
  const problems = selectorProblems(selector, 'spec.selector');
  if (problems.length > 0) return problems;
  const { selector: normal } = normaliseSelector(selector, '');
  if (Object.keys(normal).length === 0) {
    const why = `empty selector is invalid for ${workload.kind.toLowerCase()}`;
    return [invalidValue('spec.selector', selector, why)];
  }
  return when(!matchesSelector(normal, labels), mismatch);
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

const TEMPLATE_COLUMNS: readonly PrinterColumn[] = [
  wideColumn('Containers', 'The names of the containers in the template.', (workload) =>
    ofContainers(workload, 'name'),
  ),
  wideColumn('Images', 'The images of the containers in the template.', (workload) =>
    ofContainers(workload, 'image'),
  ),
  wideColumn('Selector', 'The labels of its pods.', (workload) =>
    shownSelector(section(workload, 'spec', 'selector')),
  ),
];

const ofContainers = (workload: ApiObject, field: string) =>
  records(section(workload, 'spec', 'template', 'spec'), 'containers')
    .map((container) => text(container, field))
    .join(',');

const statusNumber = (workload: ApiObject, name: string) => number(status(workload), name) ?? 0;

const wantedReplicas = (workload: ApiObject) => number(spec(workload), 'replicas') ?? 0;

/** apps/v1 Deployment. */
export const DEPLOYMENT: ResourceType = builtInKind({
  apiVersion: 'apps/v1',
  kind: 'Deployment',
  resource: 'deployments',
  namespaced: true,
  shortNames: ['deploy'],
  categories: ['all'],
  description: 'Pods of one template, and how a new template takes the place of an old one.',
  fields: {
    spec: object({
      replicas: withDefault(INT32, 1),
      selector: LABEL_SELECTOR,
      template: POD_TEMPLATE,
      strategy: {
        ...object({
          type: STRING,
          rollingUpdate: object({ maxUnavailable: INT_OR_STRING, maxSurge: INT_OR_STRING }),
        }),
        'x-kubernetes-patch-strategy': 'retainKeys',
        default: {},
      },
      minReadySeconds: INT32,
      revisionHistoryLimit: withDefault(INT32, 10),
      paused: BOOLEAN,
      progressDeadlineSeconds: withDefault(INT32, 600),
    }),
    status: object({
      observedGeneration: INT64,
      replicas: INT32,
      updatedReplicas: INT32,
      readyReplicas: INT32,
      availableReplicas: INT32,
      unavailableReplicas: INT32,
      terminatingReplicas: INT32,
      conditions: CONDITIONS,
      collisionCount: INT32,
    }),
  },
  columns: [
    column(
      'Ready',
      'How many pods are ready, of how many.',
      (workload) => `${statusNumber(workload, 'readyReplicas')}/${wantedReplicas(workload)}`,
    ),
    countColumn('Up-to-date', 'How many pods are of the newest template.', 'updatedReplicas', 'string'),
    countColumn('Available', 'How many pods have been ready for long enough.', 'availableReplicas', 'string'),
    AGE,
    ...TEMPLATE_COLUMNS,
  ],
  hasStatus: true,
  scale: SCALE,
  strategy: {
    countsGenerations: true,
    completeDefaults: (deployment) => withPulls(withRollout(deployment)),
    prepareForCreate: (deployment) => withFields(deployment, { status: {} }),
    validate: workloadProblems,
    validateUpdate: workloadUpdateProblems,
  },
});

function countColumn(
  name: string,
  description: string,
  field: string,
  type: 'integer' | 'string' = 'integer',
): PrinterColumn {
  return column(name, description, (object) => statusNumber(object, field), { type });
}

/** apps/v1 ReplicaSet. */
export const REPLICA_SET: ResourceType = builtInKind({
  apiVersion: 'apps/v1',
  kind: 'ReplicaSet',
  resource: 'replicasets',
  namespaced: true,
  shortNames: ['rs'],
  categories: ['all'],
  description: 'A number of pods of one template.',
  fields: {
    spec: object({
      replicas: withDefault(INT32, 1),
      minReadySeconds: INT32,
      selector: LABEL_SELECTOR,
      template: POD_TEMPLATE,
    }),
    status: object({
      replicas: INT32,
      fullyLabeledReplicas: INT32,
      readyReplicas: INT32,
      availableReplicas: INT32,
      terminatingReplicas: INT32,
      observedGeneration: INT64,
      conditions: CONDITIONS,
    }),
  },
  columns: [
    column('Desired', 'How many pods there should be.', wantedReplicas, { type: 'integer' }),
    countColumn('Current', 'How many pods there are.', 'replicas'),
    countColumn('Ready', 'How many pods are ready.', 'readyReplicas'),
    AGE,
    ...TEMPLATE_COLUMNS,
  ],
  hasStatus: true,
  scale: SCALE,
  selectableFields: { 'status.replicas': (set) => String(statusNumber(set, 'replicas')) },
  strategy: {
    countsGenerations: true,
    completeDefaults: withPulls,
    prepareForCreate: (set) => withFields(set, { status: { replicas: 0 } }),
    validate: workloadProblems,
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
    spec: withDefault(
      object({
        minAvailable: INT_OR_STRING,
        selector: { ...LABEL_SELECTOR, 'x-kubernetes-patch-strategy': 'replace' },
        maxUnavailable: INT_OR_STRING,
        unhealthyPodEvictionPolicy: STRING,
      }),
      {},
    ),
    status: object({
      observedGeneration: INT64,
      disruptedPods: mapOf(TIME),
      disruptionsAllowed: INT32,
      currentHealthy: INT32,
      desiredHealthy: INT32,
      expectedPods: INT32,
      conditions: CONDITIONS,
    }),
  },
  columns: [
    shareColumn('Min Available', 'How many pods must be there.', 'minAvailable'),
    shareColumn('Max Unavailable', 'How many pods may be away.', 'maxUnavailable'),
    countColumn('Allowed Disruptions', 'How many pods may be evicted now.', 'disruptionsAllowed'),
    AGE,
  ],
  hasStatus: true,
  strategy: {
    countsGenerations: true,
    prepareForCreate: (budget) =>
      withFields(budget, {
        status: { disruptionsAllowed: 0, currentHealthy: 0, desiredHealthy: 0, expectedPods: 0 },
      }),
  },
});

function shareColumn(name: string, description: string, field: string): PrinterColumn {
  return column(name, description, (budget) => {
    const share = value(spec(budget), field);
    return typeof share === 'string' || typeof share === 'number' ? String(share) : 'N/A';
  });
}
