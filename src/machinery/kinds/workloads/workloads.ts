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
} from '../../fields.ts';
import type { PrinterColumn, ResourceType } from '../../resource-type.ts';
import { AGE, builtInKind } from '../built-in-kind.ts';
import { withPullPolicies, containerProblems } from './pod.ts';
import { POD_TEMPLATE } from './pod-spec.ts';
import {
  BOOLEAN,
  CONDITIONS,
  INT32,
  INT64,
  INT_OR_STRING,
  LABEL_SELECTOR,
  object,
  STRING,
  withDefault,
} from '../schema-builders.ts';
import { shownSelector } from '../selector-text.ts';
import { matchesSelector, normaliseSelector } from '../../../json/label-selector.ts';
import type { Cause } from '../../failure.ts';
import { invalidValue, requiredValue } from '../../schema/causes.ts';
import { selectorProblems } from '../label-problems.ts';

/** The problems of a Deployment or ReplicaSet (pkg/apis/apps/validation). */
function workloadProblems(workload: ApiObject, called: 'deployment' | 'replicaset'): readonly Cause[] {
  const template = section(workload, 'spec', 'template');
  return [
    ...notNegative(workload, 'replicas'),
    ...notNegative(workload, 'minReadySeconds'),
    ...selectionProblems(workload, called),
    ...containerProblems(section(template, 'spec'), 'spec.template.spec'),
    ...countProblems(workload),
  ];
}

/** Status counters that may not exceed `replicas`. */
const PARTS = ['fullyLabeledReplicas', 'updatedReplicas', 'readyReplicas', 'availableReplicas'];

function countProblems(workload: ApiObject): readonly Cause[] {
  const count = (name: string) => number(status(workload), name) ?? 0;
  const problem = (name: string, why: string) => invalidValue(`status.${name}`, count(name), why);
  return [
    ...['replicas', ...PARTS]
      .filter((name) => count(name) < 0)
      .map((name) => problem(name, 'must be greater than or equal to 0')),
    ...PARTS.filter((name) => count(name) > count('replicas')).map((name) =>
      problem(name, 'cannot be greater than status.replicas'),
    ),
    ...(count('availableReplicas') > count('readyReplicas')
      ? [problem('availableReplicas', 'cannot be greater than readyReplicas')]
      : []),
  ];
}

function notNegative(workload: ApiObject, name: string): readonly Cause[] {
  const count = number(spec(workload), name) ?? 0;
  return count >= 0 ? [] : [invalidValue(`spec.${name}`, count, 'must be greater than or equal to 0')];
}

/** The selector must not be empty and must match the labels of the pod template. */
function selectionProblems(workload: ApiObject, called: string): readonly Cause[] {
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
    return [invalidValue('spec.selector', selector, `empty selector is invalid for ${called}`)];
  }
  return matchesSelector(normal, labels) ? [] : [mismatch];
}

/** The selector is immutable, because a new selector would orphan the existing pods. */
function workloadUpdateProblems(workload: ApiObject, old: ApiObject): readonly Cause[] {
  const selector = section(workload, 'spec', 'selector');
  if (isEqual(selector, section(old, 'spec', 'selector'))) return [];
  return [invalidValue('spec.selector', selector, 'field is immutable')];
}

// Stored only: no controller creates pods for them.

const SCALE = {
  specReplicasPath: '.spec.replicas',
  statusReplicasPath: '.status.replicas',
} as const;

const TEMPLATE_COLUMNS: readonly PrinterColumn[] = [
  wide('Containers', 'The names of the containers in the template.', (workload) =>
    ofContainers(workload, 'name'),
  ),
  wide('Images', 'The images of the containers in the template.', (workload) =>
    ofContainers(workload, 'image'),
  ),
  wide('Selector', 'The labels of its pods.', (workload) =>
    shownSelector(section(workload, 'spec', 'selector')),
  ),
];

function wide(name: string, description: string, value: (workload: ApiObject) => string): PrinterColumn {
  return { name, type: 'string', priority: 1, description, value };
}

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
    {
      name: 'Ready',
      type: 'string',
      description: 'How many pods are ready, of how many.',
      value: (workload) => `${statusNumber(workload, 'readyReplicas')}/${wantedReplicas(workload)}`,
    },
    countColumn('Up-to-date', 'How many pods are of the newest template.', 'updatedReplicas'),
    countColumn('Available', 'How many pods have been ready for long enough.', 'availableReplicas'),
    AGE,
    ...TEMPLATE_COLUMNS,
  ],
  hasStatus: true,
  scale: SCALE,
  strategy: {
    countsGenerations: true,
    completeDefaults: (deployment) => withPulls(withRollout(deployment)),
    prepareForCreate: (deployment) => withFields(withPulls(withRollout(deployment)), { status: {} }),
    prepareForUpdate: (deployment) => withPulls(withRollout(deployment)),
    validate: (deployment) => workloadProblems(deployment, 'deployment'),
    validateUpdate: workloadUpdateProblems,
  },
});

function countColumn(name: string, description: string, field: string): PrinterColumn {
  return { name, type: 'string', description, value: (workload) => statusNumber(workload, field) };
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
    {
      name: 'Desired',
      type: 'integer',
      description: 'How many pods there should be.',
      value: wantedReplicas,
    },
    replicasColumn('Current', 'How many pods there are.', 'replicas'),
    replicasColumn('Ready', 'How many pods are ready.', 'readyReplicas'),
    AGE,
    ...TEMPLATE_COLUMNS,
  ],
  hasStatus: true,
  scale: SCALE,
  selectableFields: { 'status.replicas': (set) => String(statusNumber(set, 'replicas')) },
  strategy: {
    countsGenerations: true,
    completeDefaults: withPulls,
    prepareForCreate: (set) => withFields(withPulls(set), { status: { replicas: 0 } }),
    prepareForUpdate: withPulls,
    validate: (set) => workloadProblems(set, 'replicaset'),
    validateUpdate: workloadUpdateProblems,
  },
});

function replicasColumn(name: string, description: string, field: string): PrinterColumn {
  return { name, type: 'integer', description, value: (workload) => statusNumber(workload, field) };
}

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
