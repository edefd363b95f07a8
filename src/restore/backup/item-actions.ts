/** What Velero's own plugins remove from built-in kinds. @see github.com/vmware-tanzu/velero/pkg/restore/actions */
import {
  isJsonObject,
  jsonIn,
  listIn,
  objectIn,
  pick,
  stringifyJson,
  textIn,
  type JsonObject,
} from '../../json/json.ts';

const UIDS = ['controller-uid', 'batch.kubernetes.io/controller-uid'];
const BOUND = ['pv.kubernetes.io/bind-completed', 'pv.kubernetes.io/bound-by-controller'];
const PROVISIONED = ['volume.kubernetes.io/storage-provisioner', 'volume.kubernetes.io/selected-node'];

const REMOVED: Readonly<Record<string, Readonly<Record<string, readonly string[]>>>> = {
  pods: { spec: ['nodeName', 'priority'] },
  'jobs.batch': { 'spec.selector.matchLabels': UIDS, 'spec.template.metadata.labels': UIDS },
  persistentvolumes: { 'metadata.annotations': BOUND, 'spec.claimRef': ['uid', 'resourceVersion'] },
  persistentvolumeclaims: { 'metadata.annotations': [...BOUND, ...PROVISIONED] },
};

export function withoutClusterState(object: JsonObject, kind: string, keepsNodePorts: boolean): JsonObject {
  if (kind === 'services') {
    const free = textIn(object, 'spec', 'clusterIP') === 'None' ? [] : ['clusterIP', 'clusterIPs'];
    const service = without(object, ['spec'], free);
    return keepsNodePorts ? service : withoutPorts(service);
  }
  return Object.entries(REMOVED[kind] ?? {}).reduce(
    (rest, [path, keys]) => without(rest, path.split('.'), keys),
    object,
  );
}

function without(
  object: JsonObject,
  [head, ...path]: readonly string[],
  keys: readonly string[],
): JsonObject {
  if (head === undefined)
    return Object.fromEntries(Object.entries(object).filter(([key]) => !keys.includes(key)));
  const inner = object[head];
  return isJsonObject(inner) ? { ...object, [head]: without(inner, path, keys) } : object;
}

const LAST_APPLIED = 'kubectl.kubernetes.io/last-applied-configuration';

/** Keeps the node ports that a user has chosen, by the last applied configuration or by managedFields. */
function withoutPorts(service: JsonObject): JsonObject {
  const spec = objectIn(service, 'spec');
  if (spec.type === 'ExternalName' || spec.ports === undefined) return service;
  const applied = jsonIn(textIn(service, 'metadata', 'annotations', LAST_APPLIED));
  const fields = listIn(service, 'metadata', 'managedFields').map((one) =>
    objectIn(one, 'fieldsV1', 'f:spec'),
  );
  const isChosen = (port: JsonObject): boolean => {
    const key = `k:${stringifyJson(pick(port, 'port', 'protocol'))}`;
    if (applied === undefined) return fields.some((one) => 'f:nodePort' in objectIn(one, 'f:ports', key));
    const by = port.name === undefined ? 'nodePort' : 'name';
    return listIn(applied, 'spec', 'ports')
      .map((one) => objectIn(one))
      .some((one) => Number(one.nodePort) > 0 && one[by] === port[by]);
  };
  const ports = listIn(spec, 'ports').map((port) =>
    isJsonObject(port) && !isChosen(port) ? without(port, [], ['nodePort']) : port,
  );
  const isKept =
    Number(objectIn(applied, 'spec').healthCheckNodePort) > 0 ||
    fields.some((one) => 'f:healthCheckNodePort' in one);
  return { ...service, spec: without({ ...spec, ports }, [], isKept ? [] : ['healthCheckNodePort']) };
}
