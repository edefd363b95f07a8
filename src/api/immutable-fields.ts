/** Fields of built-in kinds that the API server refuses to change. test/e2e/immutable-fields.test.ts tries every row. */
import {
  isEqual,
  isJsonArray,
  isJsonObject,
  type JsonObject,
  type JsonValue,
  valueIn,
} from '../json/json.ts';
import { type GroupResource, groupResourceName } from '../json/kube-object.ts';

/** A path such as `['spec', 'containers', '*', 'image']`; `*` is any item of a list. */
type Names = readonly string[];

/** `resource` is `jobs` or `pods/resize`, for example. */
export interface ImmutableFields extends GroupResource {
  /** Only of objects with `immutable: true`. */
  readonly ifMarked: boolean;
  readonly fields: readonly Names[];
  /** The parts of these fields that can change. */
  readonly except: readonly Names[];
}

/** Kinds, their immutable fields, and after `except` what remains mutable in those. */
export const IMMUTABLE_FIELDS: readonly ImmutableFields[] = `\
pods: spec except spec.containers.*.image spec.initContainers.*.image spec.activeDeadlineSeconds spec.schedulingGates spec.serviceAccount spec.tolerations
pods/resize: spec except spec.containers.*.resources spec.containers.*.resizePolicy spec.initContainers.*.resources spec.initContainers.*.resizePolicy
persistentvolumeclaims: spec except spec.resources.requests spec.volumeAttributesClassName spec.volumeName
persistentvolumes: spec except spec.accessModes spec.capacity spec.claimRef spec.mountOptions spec.nodeAffinity spec.persistentVolumeReclaimPolicy spec.storageClassName spec.volumeAttributesClassName
services: spec.clusterIP spec.clusterIPs spec.loadBalancerClass
secrets: type
resourcequotas: spec.scopes
configmaps secrets marked: data binaryData stringData
deployments.apps replicasets.apps daemonsets.apps: spec.selector
statefulsets.apps: spec except spec.minReadySeconds spec.ordinals spec.persistentVolumeClaimRetentionPolicy spec.replicas spec.revisionHistoryLimit spec.template spec.updateStrategy
controllerrevisions.apps: data
jobs.batch: spec.backoffLimitPerIndex spec.completionMode spec.completions spec.managedBy spec.podFailurePolicy spec.selector spec.successPolicy spec.template
rolebindings.rbac.authorization.k8s.io clusterrolebindings.rbac.authorization.k8s.io: roleRef
endpointslices.discovery.k8s.io: addressType
ingressclasses.networking.k8s.io: spec.controller
priorityclasses.scheduling.k8s.io: preemptionPolicy value
runtimeclasses.node.k8s.io: handler
storageclasses.storage.k8s.io: parameters provisioner reclaimPolicy volumeBindingMode
csidrivers.storage.k8s.io: spec.attachRequired spec.volumeLifecycleModes
volumeattachments.storage.k8s.io: spec`
  .split('\n')
  .flatMap((row) => {
    const [kinds = '', paths = ''] = row.split(': ');
    const [fields, except = []] = paths
      .split(' except ')
      .map((some) => some.split(' ').map((path) => path.split('.')));
    const names = kinds.split(' ');
    const ifMarked = names.at(-1) === 'marked';
    return names.slice(0, ifMarked ? -1 : undefined).map((name) => {
      const [resource = '', ...group] = name.split('.');
      return { resource, group: group.join('.'), ifMarked, fields: fields ?? [], except };
    });
  });

/**
 * Whether a write of the whole value at the path changes an immutable field, unless the field already has that value. `in part`:
 * the value contains mutable fields, `unknown`: it contains an immutable field.
 */
export function writesImmutable(
  path: Names,
  { fields, except }: ImmutableFields,
): 'whole' | 'in part' | 'unknown' | undefined {
  if (!fields.some((field) => startsWith(path, field)))
    return fields.some((field) => startsWith(field, path)) ? 'unknown' : undefined;
  if (except.some((mutable) => startsWith(path, mutable))) return undefined;
  return except.some((mutable) => startsWith(mutable, path)) ? 'in part' : 'whole';
}

const startsWith = (path: Names, start: Names): boolean =>
  start.length <= path.length && start.every((name, depth) => matches(name, path[depth] ?? ''));

/** The path of a JSON patch has the index of an item, and `-` for a new one. */
const matches = (a: string, b: string): boolean => a === b || [a, b].every((one) => /^(\*|\d+)$/.test(one));

export const keepsImmutable = (
  before: JsonObject,
  after: JsonObject,
  { fields, except }: ImmutableFields,
): boolean =>
  fields.every((field) => {
    const [was, is] = [before, after].map((object) => without(valueIn(object, ...field), field, except));
    return isEqual(was, is);
  });

export const mayOpen = (kind: GroupResource): boolean =>
  ['jobs.batch', 'services'].includes(groupResourceName(kind));

/** Whether this update can change such fields: the API server lets users change suspended Jobs, and Services to other types. */
export const isOpen = (of: ImmutableFields, old: JsonObject, object: JsonObject): boolean =>
  mayOpen(of) &&
  (of.resource === 'jobs'
    ? valueIn(old, 'spec', 'suspend') === true && !keepsImmutable(old, object, of)
    : valueIn(old, 'spec', 'type') !== valueIn(object, 'spec', 'type'));

function without(value: JsonValue | undefined, path: Names, except: readonly Names[]): JsonValue {
  const inside = except.filter((mutable) => startsWith(mutable, path));
  if (value === undefined || inside.some((mutable) => mutable.length === path.length)) return null;
  if (inside.length === 0) return value;
  if (isJsonArray(value)) return value.map((item) => without(item, [...path, '*'], inside));
  if (!isJsonObject(value)) return value;
  return Object.fromEntries(
    Object.entries(value).flatMap(([name, child]) => {
      const rest = without(child, [...path, name], inside);
      return rest === null ? [] : [[name, rest]];
    }),
  );
}
