import type { ApiObject } from '../../api-object.ts';
import { flag, records, section, spec, status, text, withFields } from '../../fields.ts';
import type { ResourceType } from '../../resource-type.ts';
import { AGE, builtInKind } from '../built-in-kind.ts';
import { BOOLEAN, CONDITIONS, listOf, object, openObject, STRING, STRINGS } from '../schema-builders.ts';

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
    { name: 'Status', type: 'string', description: 'Whether it is ready.', value: shownStatus },
    { name: 'Roles', type: 'string', description: 'The roles in its labels.', value: shownRoles },
    AGE,
    {
      name: 'Version',
      type: 'string',
      description: 'The version of its kubelet.',
      value: (node) => text(section(node, 'status', 'nodeInfo'), 'kubeletVersion'),
    },
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
