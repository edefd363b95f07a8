import { field, withMeta, type ApiObject } from '../../api-object.ts';
import { flag, records, section, spec, status, text, texts, withFields } from '../../fields.ts';
import { labelProblem } from '../../name-problems.ts';
import type { ResourceType, Strategy } from '../../resource-type.ts';
import { AGE, builtInKind, column } from '../built-in-kind.ts';
import { BOOLEAN, CONDITIONS, listOf, object, openObject, STRING, STRINGS } from '../schema-builders.ts';

/** Every Namespace has a label with its own name, so that selectors can match it. */
const NAME_LABEL = 'kubernetes.io/metadata.name';
/** Keeps a Namespace until its content is deleted. */
const NAMESPACE_FINALIZER = 'kubernetes';

/** Follows pkg/registry/core/namespace/strategy.go. */
const namespaceStrategy: Partial<Strategy> = {
  completeDefaults: withNameLabel,
  prepareForCreate: (namespace) => {
    const finalizers = texts(spec(namespace), 'finalizers');
    return withFields(withNameLabel(namespace), {
      spec: {
        finalizers: finalizers.includes(NAMESPACE_FINALIZER)
          ? finalizers
          : [...finalizers, NAMESPACE_FINALIZER],
      },
      status: { phase: 'Active' },
    });
  },
  // Only the `finalize` subresource changes finalizers.
  prepareForUpdate: (namespace, old) => withFields(withNameLabel(namespace), { spec: field(old, 'spec') }),
  nameProblem: labelProblem,
};

function withNameLabel(namespace: ApiObject): ApiObject {
  const { name = '', labels } = namespace.metadata;
  if (name === '' || labels?.[NAME_LABEL] === name) return namespace;
  return withMeta(namespace, { labels: { ...labels, [NAME_LABEL]: name } });
}

const phaseOf = (namespace: ApiObject) => text(status(namespace), 'phase');

export const NAMESPACE: ResourceType = builtInKind({
  apiVersion: 'v1',
  kind: 'Namespace',
  resource: 'namespaces',
  shortNames: ['ns'],
  description: 'A room for names: objects in different namespaces may be called the same.',
  fields: {
    spec: object({ finalizers: STRINGS }),
    status: object({ phase: STRING, conditions: CONDITIONS }),
  },
  columns: [column('Status', 'The status of the namespace', phaseOf), AGE],
  hasStatus: true,
  verbs: ['create', 'delete', 'get', 'list', 'patch', 'update', 'watch'],
  selectableFields: { 'status.phase': phaseOf },
  strategy: namespaceStrategy,
});

const ROLE_LABEL = 'node-role.kubernetes.io/';

/** v1 Node: stored, and never ready. */
export const NODE: ResourceType = builtInKind({
  apiVersion: 'v1',
  kind: 'Node',
  resource: 'nodes',
  shortNames: ['no'],
  description: 'A machine that runs pods.',
  fields: {
    spec: object({
      podCIDR: STRING,
      podCIDRs: STRINGS,
      providerID: STRING,
      unschedulable: BOOLEAN,
      taints: listOf(openObject({ key: STRING, value: STRING, effect: STRING })),
    }),
    status: openObject({ conditions: CONDITIONS }),
  },
  columns: [
    column('Status', 'Whether it is ready.', shownStatus),
    column('Roles', 'The roles in its labels.', shownRoles),
    AGE,
    column('Version', 'The version of its kubelet.', (node) =>
      text(section(node, 'status', 'nodeInfo'), 'kubeletVersion'),
    ),
  ],
  hasStatus: true,
  selectableFields: { 'spec.unschedulable': (node) => String(flag(spec(node), 'unschedulable')) },
  strategy: { prepareForCreate: withNotReady },
});

const NODE_INFO = [
  ...['machineID', 'systemUUID', 'bootID', 'kernelVersion', 'osImage', 'containerRuntimeVersion'],
  ...['kubeletVersion', 'kubeProxyVersion', 'operatingSystem', 'architecture'],
];

/** No pod may run on a new node; Go writes the empty structs of its status. */
function withNotReady(node: ApiObject): ApiObject {
  const taints = records(spec(node), 'taints');
  const notReady = { key: 'node.kubernetes.io/not-ready', effect: 'NoSchedule' };
  const isTainted = taints.some(({ key, effect }) => key === notReady.key && effect === notReady.effect);
  return withFields(node, {
    spec: { ...spec(node), taints: isTainted ? taints : [...taints, notReady] },
    status: {
      daemonEndpoints: { kubeletEndpoint: { Port: 0 } },
      nodeInfo: Object.fromEntries(NODE_INFO.map((name) => [name, ''])),
      ...status(node),
    },
  });
}

function shownStatus(node: ApiObject): string {
  const ready = records(status(node), 'conditions').find((condition) => text(condition, 'type') === 'Ready');
  const said = ready === undefined ? 'Unknown' : text(ready, 'status') === 'True' ? 'Ready' : 'NotReady';
  return flag(spec(node), 'unschedulable') ? `${said},SchedulingDisabled` : said;
}

function shownRoles({ metadata }: ApiObject): string {
  const roles = Object.keys(metadata.labels ?? {}).filter((label) => label.startsWith(ROLE_LABEL));
  return (
    roles
      .map((label) => label.slice(ROLE_LABEL.length))
      .sort()
      .join(',') || '<none>'
  );
}
