import { isEqual, type JsonObject, type JsonValue } from '../../../json/json.ts';
import type { ApiObject } from '../../api-object.ts';
import { flag, records, text, number, section, spec, status, withFields } from '../../fields.ts';
import type { Cause } from '../../failure.ts';
import type { PrinterColumn, ResourceType } from '../../resource-type.ts';
import { duplicateValue, invalidValue, requiredValue, unsupportedValue } from '../../schema/causes.ts';
import { AGE, builtInKind } from '../built-in-kind.ts';
import { labelProblem } from '../name-problems.ts';
import { POD_SPEC } from './pod-spec.ts';
import { CONDITIONS, openObject, STRING } from '../schema-builders.ts';

/** A limit without a request is also the request. */
function withRequests(podSpec: JsonObject): JsonObject {
  const lists = ['containers', 'initContainers'].filter((name) =>
    records(podSpec, name).some(
      (container) => Object.keys(section(container, 'resources', 'limits')).length > 0,
    ),
  );
  if (lists.length === 0) return podSpec;
  return {
    ...podSpec,
    ...Object.fromEntries(lists.map((name) => [name, records(podSpec, name).map(requesting)])),
  };
}

function requesting(container: JsonObject): JsonObject {
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
  {
    name: 'Ready',
    type: 'string',
    description: 'How many containers are ready, of how many.',
    value: shownReady,
  },
  { name: 'Status', type: 'string', description: 'What it is doing.', value: shownStatus },
  {
    name: 'Restarts',
    type: 'string',
    description: 'How often its containers were started again.',
    value: (pod) =>
      String(containerStates(pod).reduce((sum, state) => sum + (number(state, 'restartCount') ?? 0), 0)),
  },
  AGE,
  wide('IP', 'Its address.', (pod) => text(status(pod), 'podIP')),
  wide('Node', 'Where it runs.', (pod) => text(spec(pod), 'nodeName')),
  wide('Nominated Node', 'Where it may run once others have made room.', (pod) =>
    text(status(pod), 'nominatedNodeName'),
  ),
  wide('Readiness Gates', 'Additional conditions that must be true.', shownGates),
];

function wide(name: string, description: string, read: (pod: ApiObject) => string): PrinterColumn {
  return { name, type: 'string', priority: 1, description, value: (pod) => read(pod) || '<none>' };
}

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
    completeDefaults: (pod) => withFields(pod, { spec: withRequests(withPullPolicies(spec(pod))) }),
    prepareForCreate: (pod) => {
      const completed = withRequests(withPullPolicies(spec(pod)));
      return withFields(pod, {
        spec: completed,
        status: { phase: 'Pending', qosClass: qosClassOf(completed) },
      });
    },
    validate: (pod) => [...containerProblems(spec(pod), 'spec'), ...restartProblems(spec(pod))],
  },
});

/**
 * Sets imagePullPolicy on all containers of a pod or template. It defaults to Always for an image without a fixed
 * tag, because such an image may change.
 */
export function withPullPolicies(podSpec: JsonObject): JsonObject {
  const lists = ['containers', 'initContainers'].filter((name) => Array.isArray(podSpec[name]));
  if (lists.length === 0) return podSpec;
  return { ...podSpec, ...Object.fromEntries(lists.map((name) => [name, pulled(podSpec, name)])) };
}

const pulled = (podSpec: JsonObject, list: string): JsonValue =>
  records(podSpec, list).map((container) => {
    const image = text(container, 'image');
    if (image === '' || text(container, 'imagePullPolicy') !== '') return container;
    const path = image.slice(image.lastIndexOf('/') + 1);
    const floating = !path.includes('@') && (!path.includes(':') || path.endsWith(':latest'));
    return { ...container, imagePullPolicy: floating ? 'Always' : 'IfNotPresent' };
  });

const RESTARTS = ['Always', 'OnFailure', 'Never'];

function restartProblems(podSpec: JsonObject): readonly Cause[] {
  const policy = text(podSpec, 'restartPolicy');
  return RESTARTS.includes(policy) ? [] : [unsupportedValue('spec.restartPolicy', policy, RESTARTS)];
}

/** The rules of ValidatePodSpec for fields that every container has. */
export function containerProblems(podSpec: JsonObject, field: string): readonly Cause[] {
  const containers = records(podSpec, 'containers');
  if (containers.length === 0) return [requiredValue(`${field}.containers`)];
  const names = containers.map((container) => text(container, 'name'));
  return containers.flatMap((container, index) => {
    const at = `${field}.containers[${index}]`;
    const name = names[index] ?? '';
    const image = text(container, 'image');
    const problem = name === '' ? undefined : labelProblem(name);
    return [
      ...(name === '' ? [requiredValue(`${at}.name`)] : []),
      ...(problem === undefined ? [] : [invalidValue(`${at}.name`, name, problem)]),
      ...(name !== '' && names.indexOf(name) < index ? [duplicateValue(`${at}.name`, name)] : []),
      ...(image === '' ? [requiredValue(`${at}.image`)] : []),
      ...(image === image.trim()
        ? []
        : [invalidValue(`${at}.image`, image, 'must not have leading or trailing whitespace')]),
    ];
  });
}

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

function shownGates(pod: ApiObject): string {
  const gates = records(spec(pod), 'readinessGates').map((gate) => text(gate, 'conditionType'));
  if (gates.length === 0) return '';
  const conditions = records(status(pod), 'conditions');
  const met = gates.filter((gate) =>
    conditions.some((found) => text(found, 'type') === gate && text(found, 'status') === 'True'),
  );
  return `${met.length}/${gates.length}`;
}
