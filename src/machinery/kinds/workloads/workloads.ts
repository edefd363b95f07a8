import { isEqual, type JsonObject } from '../../../json/json.ts';
import type { ApiObject } from '../../api-object.ts';
import { records, text, changed, has, number, section, spec, status, withFields } from '../../fields.ts';
import type { PrinterColumn, ResourceType } from '../../resource-type.ts';
import { AGE, builtInKind, column, wideColumn } from '../built-in-kind.ts';
import { POD_TEMPLATE, withPullPolicies } from './pod.ts';
import {
  BOOLEAN,
  CONDITIONS,
  INT32,
  INT_OR_STRING,
  LABEL_SELECTOR,
  object,
  openObject,
  STRING,
  withDefault,
} from '../schema-builders.ts';
import { shownSelector } from '../../selectors/label-selector.ts';
import type { Cause } from '../../failure.ts';
import { invalidValue, when } from '../../schema/causes.ts';

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
    status: openObject({ conditions: CONDITIONS }),
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
    status: openObject({ conditions: CONDITIONS }),
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
      openObject({ selector: { ...LABEL_SELECTOR, 'x-kubernetes-patch-strategy': 'replace' } }),
      {},
    ),
    status: openObject({ conditions: CONDITIONS }),
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
