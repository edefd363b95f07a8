/** The kinds of the snapshot: built-in kinds, Gatehouse's kinds, and the CRDs in the input. */
import { validateCreate } from '../../machinery/objects/validate.ts';
import type { KindVersion } from '../../admission/policy/match/subresources.ts';
import { type JsonObject, pick, textIn } from '../../json/json.ts';
import { mergeInto } from '../../json/merge-patch.ts';
import { listsOf } from '../../admission/policy/mutations/list-types.ts';
import { customResourceDefinitions } from '../../api/crds.ts';
import {
  type GroupResource,
  groupResourceName,
  guessPlural,
  splitApiVersion,
} from '../../json/kube-object.ts';
import { type ApiObject, ofJson, toJson } from '../../machinery/api-object.ts';
import { conditionsOf, DEFINITIONS, isConditionTrue } from '../../machinery/crd/definition.ts';
import { definitionType } from '../../machinery/crd/definition-type.ts';
import { planDefinitionStatus } from '../../machinery/crd/status.ts';
import { ApiFailure } from '../../machinery/failure.ts';
import { builtInKind } from '../../machinery/kinds/built-in-kind.ts';
import { builtInTypes } from '../../machinery/kinds/built-in-types.ts';
import { createServiceAllocators } from '../../machinery/kinds/services/service-allocation.ts';
import { decodeObject } from '../../machinery/objects/decode.ts';
import { createRegistry } from '../../machinery/registry.ts';
import { plainStrategy, type ResourceRegistry, type ResourceType } from '../../machinery/resource-type.ts';
import { ANYTHING, schemaToJson } from '../../machinery/schema/schema.ts';
import type { Storage } from '../../machinery/storage/stored.ts';
import { SILENT } from './api-server.ts';
import { describePlace, type PlacedObject, refuse } from './input.ts';

export type Kinds = ReturnType<typeof createKinds>;

/** The unused transition time in the status of CRDs. */
const EPOCH = '1970-01-01T00:00:00Z';

/** @param storage receives the CRDs @throws UnusableInput when the API server would reject a CRD */
export function createKinds(objects: readonly PlacedObject[], storage: Storage) {
  // No validation for the CRDs of Gatehouse: the tests install them.
  for (const { manifest } of customResourceDefinitions()) establish(ofJson(manifest as JsonObject), storage);
  refuse(objects.filter(isDefinition).flatMap((placed) => define(placed, storage)));
  const served = [
    ...builtInTypes({}, createServiceAllocators(storage)).map(withoutOwnChecks),
    definitionType,
    ...FURTHER_BUILT_IN_KINDS,
  ];
  const guessed = guessKinds(objects, createRegistry(served, storage));
  const registry = createRegistry([...served, ...guessed], storage);
  const below = (type: ResourceType) =>
    [guessed.includes(type) && '*', type.hasStatus && 'status', type.scale && 'scale']
      .filter((name) => typeof name === 'string')
      .map((name) => ({ ...type, resource: `${type.resource}/${name}` }));
  return {
    registry,
    resolve: ({ group, resource }: GroupResource) => registry.stored(group, resource),
    typeOf: (object: JsonObject): ResourceType | string =>
      registry.findKind(textIn(object, 'apiVersion'), textIn(object, 'kind')) ?? unserved(object, registry),
    schemas: (kind: GroupResource, versions: readonly string[]): readonly KindVersion[] =>
      registry
        .all()
        .filter((type) => type.custom && groupResourceName(type) === groupResourceName(kind))
        .filter(({ version }) => versions.includes('*') || versions.includes(version))
        .map(({ schema, scale }) => ({ ...kind, schema: schemaToJson(schema), scale })),
    /** Undefined if that is unknown: without any CRD in the input, only the built-in groups are known. */
    servedIn: (group: string) =>
      objects.some(isDefinition) || served.some((type) => type.group === group)
        ? registry.all().flatMap((type) => (type.group === group ? [type, ...below(type)] : []))
        : undefined,
    groups: [...new Set(registry.all().map(({ group }) => group))].filter((group) => group !== ''),
    notes: guessed.map(describeGuess),
  };
}

export const isDefinition = ({ object }: Pick<PlacedObject, 'object'>): boolean =>
  groupOf(object) === DEFINITIONS.group && textIn(object, 'kind') === 'CustomResourceDefinition';

function define({ object, place }: PlacedObject, storage: Storage): readonly string[] {
  const fail = (message: string) => [`${describePlace(place)}: ${message}`];
  const apiVersion = textIn(object, 'apiVersion');
  if (apiVersion !== `${DEFINITIONS.group}/v1`)
    return fail(`${apiVersion} is not supported for CustomResourceDefinitions: use ${DEFINITIONS.group}/v1`);
  try {
    const decoded = decodeObject(object, definitionType, 'Ignore', SILENT);
    validateCreate(definitionType.strategy.prepareForCreate(decoded), definitionType);
    const established = establish(decoded, storage);
    return isConditionTrue(established, 'Established') ? [] : fail(whyNot(established));
  } catch (error) {
    if (error instanceof ApiFailure) return fail(error.message);
    throw error;
  }
}

function establish(crd: ApiObject, storage: Storage): ApiObject {
  const prepared = definitionType.strategy.prepareForCreate(crd);
  const key = { namespace: '', name: prepared.metadata.name ?? '' };
  const before = storage.get(DEFINITIONS, key);
  if (before !== undefined) storage.remove(DEFINITIONS, key, before.metadata.resourceVersion ?? '');
  const established = planDefinitionStatus(prepared, storage.list(DEFINITIONS).items, EPOCH);
  return storage.create(DEFINITIONS, established);
}

const whyNot = (crd: ApiObject): string =>
  conditionsOf(crd)
    .filter(({ status }) => status === 'False')
    .map(({ message }) => message)
    .join('; ');

/** The checks of built-in kinds expect fields that the API server sets, such as the address of a Service. */
const withoutOwnChecks = (type: ResourceType): ResourceType => ({
  ...type,
  strategy: {
    ...plainStrategy,
    ...pick(type.strategy, 'completeDefaults', 'nameProblem'),
    // A manifest lacks these fields, and applying it leaves them unchanged.
    validateUpdate: (object, old) => {
      const applied = mergeInto(toJson(old), toJson(object), listsOf({ lists: [] }, type));
      return type.strategy.validateUpdate(ofJson(applied), old);
    },
  },
});

function toType(apiVersion: string, kind: string, namespaced: boolean, custom: boolean): ResourceType {
  const names = { apiVersion, kind, resource: guessPlural(kind), fields: {}, description: '' };
  return { ...builtInKind({ ...names, ...(namespaced ? { namespaced } : {}) }), schema: ANYTHING, custom };
}

function guessKinds(objects: readonly PlacedObject[], registry: ResourceRegistry): readonly ResourceType[] {
  const byKind = Map.groupBy(objects, ({ object }) => `${groupOf(object)}/${textIn(object, 'kind')}`);
  return [...byKind.values()].flatMap((same) => {
    const [first] = same;
    if (first === undefined || versionsOf(first.object, registry).length > 0) return [];
    const kind = textIn(first.object, 'kind');
    const namespaced = same.some(({ object }) => textIn(object, 'metadata', 'namespace') !== '');
    const apiVersions = new Set(same.map(({ object }) => textIn(object, 'apiVersion')));
    const [storageVersion] = [...apiVersions].map((apiVersion) => splitApiVersion(apiVersion).version);
    return [...apiVersions].map((apiVersion) => ({
      ...toType(apiVersion, kind, namespaced, true),
      ...(storageVersion === undefined ? {} : { storageVersion }),
    }));
  });
}

function describeGuess({ group, version, kind, resource, namespaced }: ResourceType): string {
  const scope = namespaced ? 'namespaced' : 'cluster-scoped';
  return `the CustomResourceDefinition of ${kind} (${group}/${version}) is missing: assuming ${groupResourceName({ group, resource })}, ${scope}, with any fields; add it to the crds`;
}

function unserved(object: JsonObject, registry: ResourceRegistry): string {
  const versions = versionsOf(object, registry);
  const kind = textIn(object, 'kind');
  if (versions.length === 0) {
    const why = isBuiltInGroup(groupOf(object), registry)
      ? 'Kubernetes does not have this kind any more, or not yet'
      : 'its CustomResourceDefinition is missing';
    return `${textIn(object, 'apiVersion')} ${kind} is not served: ${why}`;
  }
  return `${kind} is not served in ${textIn(object, 'apiVersion')}, only in ${versions.join(', ')}`;
}

const isBuiltInGroup = (group: string, registry: ResourceRegistry): boolean =>
  !group.includes('.') || registry.all().some((type) => type.group === group && !type.custom);

function versionsOf(object: JsonObject, registry: ResourceRegistry): readonly string[] {
  const group = groupOf(object);
  const kind = textIn(object, 'kind');
  return registry
    .all()
    .filter((type) => type.group === group && type.kind === kind)
    .map(({ version }) => (group === '' ? version : `${group}/${version}`));
}

export const groupOf = (object: JsonObject): string => splitApiVersion(textIn(object, 'apiVersion')).group;

/** With their short names. */
const NAMESPACED: Readonly<Record<string, readonly string[]>> = {
  v1: 'Binding LimitRange/limits PersistentVolumeClaim/pvc PodTemplate ReplicationController/rc ResourceQuota/quota'.split(
    ' ',
  ),
  'apps/v1': ['ControllerRevision', 'DaemonSet/ds', 'StatefulSet/sts'],
  'autoscaling/v1': ['HorizontalPodAutoscaler/hpa'],
  'autoscaling/v2': ['HorizontalPodAutoscaler/hpa'],
  'batch/v1': ['CronJob/cj', 'Job'],
  'certificates.k8s.io/v1': ['PodCertificateRequest'],
  'resource.k8s.io/v1': ['ResourceClaim', 'ResourceClaimTemplate'],
  'storage.k8s.io/v1': ['CSIStorageCapacity'],
};

const CLUSTER_SCOPED: Readonly<Record<string, readonly string[]>> = {
  v1: ['Node/no', 'PersistentVolume/pv'],
  'certificates.k8s.io/v1': ['CertificateSigningRequest/csr'],
  'flowcontrol.apiserver.k8s.io/v1': ['FlowSchema', 'PriorityLevelConfiguration'],
  'networking.k8s.io/v1': ['IngressClass', 'IPAddress', 'ServiceCIDR'],
  'node.k8s.io/v1': ['RuntimeClass'],
  'resource.k8s.io/v1': ['DeviceClass', 'DeviceTaintRule', 'ResourceSlice'],
  'scheduling.k8s.io/v1': ['PriorityClass/pc'],
  'storagemigration.k8s.io/v1': ['StorageVersionMigration'],
  'storage.k8s.io/v1': [
    'CSIDriver',
    'CSINode',
    'StorageClass/sc',
    'VolumeAttachment',
    'VolumeAttributesClass/vac',
  ],
};

/** Built-in kinds that the machinery does not serve: only their names. @see `kubectl api-resources` of Kubernetes 1.37 */
const FURTHER_BUILT_IN_KINDS = [NAMESPACED, CLUSTER_SCOPED].flatMap((table) =>
  Object.entries(table).flatMap(([apiVersion, kinds]) =>
    kinds.map((names) => {
      const [kind = '', ...shortNames] = names.split('/');
      return { ...toType(apiVersion, kind, table === NAMESPACED, false), shortNames };
    }),
  ),
);
