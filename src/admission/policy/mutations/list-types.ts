/** Lists that a Merge merges by item, as server-side apply does. It replaces all others. */
import { isJsonObject, type JsonValue, listIn, textIn, valueIn } from '../../../json/json.ts';
import { type GroupResource, groupResourceName } from '../../../json/kube-object.ts';
import type { ListTypes } from '../../../json/merge-patch.ts';

export interface KindLists extends GroupResource {
  readonly lists: ListTypes;
}

type Keys = NonNullable<ListTypes['keys']>;

/** Undefined if the schema has none of these lists. */
function listsInSchema(schema: unknown): ListTypes | undefined {
  if (!isJsonObject(schema)) return undefined;
  const type = textIn(schema, 'x-kubernetes-list-type');
  const keys = listIn(schema, 'x-kubernetes-list-map-keys')
    .filter((name) => typeof name === 'string')
    .map((name) => [name, valueIn(schema, 'items', 'properties', name, 'default') ?? null] as const);
  const { properties, items, additionalProperties } = schema;
  const children: readonly (readonly [string, JsonValue | undefined])[] = [
    ...Object.entries(isJsonObject(properties) ? properties : {}),
    ['*', items ?? additionalProperties],
  ];
  const below = children.flatMap(([name, child]) => {
    const lists = listsInSchema(child);
    return lists === undefined ? [] : [[name, lists] as const];
  });
  const isMerged = type === 'map' || type === 'set';
  if (!isMerged && below.length === 0) return undefined;
  return { ...(isMerged ? { keys } : {}), below: new Map(below) };
}

/** Paths in these specs, each with the keys of its list. Without keys, it is a set. */
const IN_CONTAINERS =
  'env:name ports:containerPort,protocol=TCP resources.claims:name restartPolicyRules.*.exitCodes.values: volumeDevices:devicePath volumeMounts:mountPath volumeMounts.*.bindMountOptions:';
const IN_POD_SPECS =
  'evictionResponders:name hostAliases:ip imagePullSecrets:name resourceClaims:name resources.claims:name schedulingGates:name topologySpreadConstraints:topologyKey,whenUnsatisfiable volumes:name';

/** Built-in kinds, the places of their pod specs, and their other lists. Compared with an API server by test/e2e/merged-lists.test.ts. */
const KINDS = `\
pods @spec
podtemplates @template.spec
daemonsets.apps deployments.apps replicasets.apps replicationcontrollers statefulsets.apps @spec.template.spec
jobs.batch @spec.template.spec spec.podFailurePolicy.rules.*.onExitCodes.values: spec.scheduling.resourceClaims:name
cronjobs.batch @spec.jobTemplate.spec.template.spec spec.jobTemplate.spec.podFailurePolicy.rules.*.onExitCodes.values: spec.jobTemplate.spec.scheduling.resourceClaims:name
services spec.ports:port,protocol=TCP
serviceaccounts secrets:name
nodes spec.podCIDRs: spec.podPreemptionPolicy.disableResizePreemption:
endpointslices.discovery.k8s.io endpoints.*.addresses:
csidrivers.storage.k8s.io spec.volumeLifecycleModes:
csinodes.storage.k8s.io spec.drivers:name`;

const prefixed = (prefix: string, paths: string) => paths.split(' ').map((path) => `${prefix}.${path}`);

function listsAt(place: string): readonly string[] {
  if (!place.startsWith('@')) return [place];
  const spec = place.slice(1);
  return [
    ...prefixed(spec, IN_POD_SPECS),
    ...['containers', 'initContainers', 'ephemeralContainers'].flatMap((name) => [
      `${spec}.${name}:name`,
      ...prefixed(`${spec}.${name}.*`, IN_CONTAINERS),
    ]),
  ];
}

function withList(lists: ListTypes | undefined, [name, ...path]: readonly string[], keys: Keys): ListTypes {
  const below = lists?.below ?? new Map<string, ListTypes>();
  if (name === undefined) return { keys, below };
  return { ...lists, below: new Map(below).set(name, withList(below.get(name), path, keys)) };
}

function withLists(lists: ListTypes, texts: readonly string[]): ListTypes {
  return texts.reduce((all, text) => {
    const [path = '', keys = ''] = text.split(':');
    const parsed = keys === '' ? [] : keys.split(',').map((key) => key.split('='));
    return withList(
      all,
      path.split('.'),
      parsed.map(([name = '', preset = null]) => [name, preset]),
    );
  }, lists);
}

const IN_METADATA = ['metadata.finalizers:', 'metadata.ownerReferences:uid'];
const METADATA = withLists({ below: new Map() }, IN_METADATA);

export const BUILT_IN_LISTS: ReadonlyMap<string, ListTypes> = new Map(
  KINDS.split('\n').flatMap((row) => {
    const parts = row.split(' ');
    const isKind = (part: string) => !/[@:]/.test(part);
    const lists = withLists(METADATA, parts.filter((part) => !isKind(part)).flatMap(listsAt));
    return parts.filter(isKind).map((kind) => [kind, lists] as const);
  }),
);

/** Undefined if only lists of metadata are merged. */
export function customLists(schema: unknown): ListTypes | undefined {
  const lists = listsInSchema(schema);
  return lists && withLists(lists, IN_METADATA);
}

/** @param lists of custom kinds */
export function listsOf({ lists }: { readonly lists: readonly KindLists[] }, kind: GroupResource): ListTypes {
  const custom = lists.find(({ group, resource }) => group === kind.group && resource === kind.resource);
  return custom?.lists ?? BUILT_IN_LISTS.get(groupResourceName(kind)) ?? METADATA;
}
