import type { JsonObject } from '../../json/json.ts';
import type { ResourceType, Subresource } from '../../machinery/resource-type.ts';
import type { ServedGroup, ServedVersion } from './groups.ts';

/** All subresources of a resource by name, with the kinds that they read and write. */
export function subresourcesOf(type: ResourceType): readonly Required<Subresource>[] {
  const { group, version, kind } = type;
  const own = { group, version };
  const verbs = ['get', 'patch', 'update'] as const;
  const all: readonly Required<Subresource>[] = [
    ...(type.hasStatus ? [{ ...own, name: 'status', kind, verbs }] : []),
    ...(type.scale === undefined
      ? []
      : [{ name: 'scale', group: 'autoscaling', version: 'v1', kind: 'Scale', verbs }]),
    ...(type.subresources ?? []).map((subresource) => ({ ...own, ...subresource })),
  ];
  return all.toSorted((left, right) => (left.name < right.name ? -1 : 1));
}

/** `/api/v1`, `/apis/<group>/<version>`. */
export const toResourceList = ({ groupVersion, types }: ServedVersion): JsonObject => ({
  kind: 'APIResourceList',
  // The core group's document keeps its format from before groups existed.
  ...(groupVersion.includes('/') ? { apiVersion: 'v1' } : {}),
  groupVersion,
  resources: types.flatMap((type) => [
    {
      name: type.resource,
      singularName: type.singular,
      namespaced: type.namespaced,
      kind: type.kind,
      verbs: type.verbs,
      ...namesOf(type),
    },
    ...subresourcesOf(type).map((subresource) => ({
      name: `${type.resource}/${subresource.name}`,
      singularName: '',
      namespaced: type.namespaced,
      // Only a kind of another group is written in full.
      ...(subresource.group === type.group ? {} : { group: subresource.group, version: subresource.version }),
      kind: subresource.kind,
      verbs: subresource.verbs,
    })),
  ]),
});

const namesOf = ({ shortNames, categories }: ResourceType): JsonObject => ({
  ...(shortNames.length === 0 ? {} : { shortNames }),
  ...(categories.length === 0 ? {} : { categories }),
});

/** `/apis/<group>`, and an item of `/apis`. */
export function toGroup({ name, versions }: ServedGroup): JsonObject {
  const shown = versions.map(({ groupVersion, version }) => ({ groupVersion, version }));
  return { name, versions: shown, preferredVersion: shown[0] ?? {} };
}

/** One group of aggregated discovery, apidiscovery.k8s.io; v2 and v2beta1 have the same format. */
export const toAggregatedGroup = ({ name, versions }: ServedGroup): JsonObject => ({
  metadata: { ...(name === '' ? {} : { name }), creationTimestamp: null },
  versions: versions.map(({ version, types }) => ({
    version,
    resources: types.map(toAggregatedResource),
    freshness: 'Current',
  })),
});

function toAggregatedResource(type: ResourceType): JsonObject {
  const { group, version, kind } = type;
  const subresources = subresourcesOf(type);
  return {
    resource: type.resource,
    responseKind: { group, version, kind },
    scope: type.namespaced ? 'Namespaced' : 'Cluster',
    singularResource: type.singular,
    verbs: type.verbs,
    ...namesOf(type),
    ...(subresources.length === 0 ? {} : { subresources: subresources.map(toAggregatedSubresource) }),
  };
}

const toAggregatedSubresource = ({
  name,
  group,
  version,
  kind,
  verbs,
}: Required<Subresource>): JsonObject => ({
  subresource: name,
  responseKind: { group, version, kind },
  verbs,
});
