import { arch, platform, version as nodeVersion } from 'node:process';

import { compareText, type JsonObject, type JsonValue } from '../../json/json.ts';
import { type Encoding, mediaTypeOf, negotiateDocument, plainForm } from '../http/content-type.ts';
import {
  apiVersionOf,
  compareVersions,
  type ResourceRegistry,
  type ResourceType,
} from '../../machinery/resource-type.ts';

export const GIT_VERSION = 'v1.37.0+sandbox';

/** `/version`: the emulated Kubernetes release. */
export const VERSION: JsonObject = {
  major: '1',
  minor: '37',
  emulationMajor: '1',
  emulationMinor: '37',
  minCompatibilityMajor: '1',
  minCompatibilityMinor: '36',
  gitVersion: GIT_VERSION,
  gitCommit: '',
  gitTreeState: 'clean',
  buildDate: '1970-01-01T00:00:00Z',
  goVersion: `node ${nodeVersion}`,
  compiler: 'none',
  platform: `${platform}/${arch}`,
};

/** The documents at `/version`, `/api`, `/apis` and below; undefined for all other paths. */
export function discoveryAnswer(
  path: string,
  accept: string | undefined,
  registry: ResourceRegistry,
): DocumentAnswer | undefined {
  const [root = '', ...rest] = path.split('/').filter((part) => part !== '');
  const groups = groupsOf(registry.all());
  const core = groups.find(({ name }) => name === '')?.versions ?? [];
  switch (root) {
    case 'version':
      return rest.length === 0 ? documentAnswer(VERSION, undefined) : undefined;
    case 'api':
      return belowApi(rest, accept, core);
    case 'apis':
      return belowApis(
        rest,
        accept,
        groups.filter(({ name }) => name !== ''),
      );
    default:
      return undefined;
  }
}

function belowApi(
  below: readonly string[],
  accept: string | undefined,
  core: readonly ServedVersion[],
): DocumentAnswer | undefined {
  if (below.length > 0) return resourceList(below, accept, core);
  const versions = core.map(({ version }) => version);
  const plain = { kind: 'APIVersions', versions, serverAddressByClientCIDRs: [] };
  return aggregatedOr(plain, accept, [{ name: '', versions: core }]);
}

function belowApis(
  [name, ...below]: readonly string[],
  accept: string | undefined,
  groups: readonly ServedGroup[],
): DocumentAnswer | undefined {
  if (name === undefined) {
    const list = { kind: 'APIGroupList', apiVersion: 'v1', groups: groups.map(toGroup) };
    return aggregatedOr(list, accept, groups);
  }
  const group = groups.find((candidate) => candidate.name === name);
  if (group === undefined) return undefined;
  if (below.length > 0) return resourceList(below, accept, group.versions);
  return documentAnswer({ kind: 'APIGroup', apiVersion: 'v1', ...toGroup(group) }, accept);
}

function resourceList(
  [version, ...rest]: readonly string[],
  accept: string | undefined,
  versions: readonly ServedVersion[],
): DocumentAnswer | undefined {
  const served = versions.find((candidate) => candidate.version === version);
  return served === undefined || rest.length > 0 ? undefined : documentAnswer(toResourceList(served), accept);
}

function discoveryForm(parameters: ReadonlyMap<string, string>) {
  const isAggregated =
    parameters.get('g') === 'apidiscovery.k8s.io' &&
    parameters.get('as') === 'APIGroupDiscoveryList' &&
    parameters.get('v') === 'v2';
  return isAggregated ? { kind: 'aggregated' as const } : plainForm(parameters);
}

/** All groups with all their resources in one document, if the client accepts it. */
function aggregatedOr(
  plain: JsonValue,
  accept: string | undefined,
  groups: readonly ServedGroup[],
): DocumentAnswer {
  const { kind, encoding } = negotiateDocument(accept, discoveryForm);
  const mediaType = mediaTypeOf(encoding);
  if (kind === 'plain') return { body: plain, encoding, contentType: mediaType };
  return {
    body: {
      kind: 'APIGroupDiscoveryList',
      apiVersion: 'apidiscovery.k8s.io/v2',
      metadata: {},
      items: groups.map(toAggregatedGroup),
    },
    encoding,
    contentType: `${mediaType};g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList`,
  };
}

export interface DocumentAnswer {
  readonly body: JsonValue;
  readonly encoding: Encoding;
  readonly contentType: string;
}

/** Encodes the document as the client accepts it. @throws ApiFailure 406 */
export function documentAnswer(body: JsonValue, accept: string | undefined): DocumentAnswer {
  const { encoding } = negotiateDocument(accept, plainForm);
  return { body, encoding, contentType: mediaTypeOf(encoding) };
}

export interface ServedVersion {
  readonly version: string;
  /** `v1`, `infra.example.com/v1`. */
  readonly groupVersion: string;
  readonly types: readonly ResourceType[];
}

interface ServedGroup {
  readonly name: string;
  /** The preferred version first; never empty. */
  readonly versions: readonly ServedVersion[];
}

/** The API server's own groups in its order; clients resolve a short name in the first group that has it. */
const PRIORITY = [
  '',
  'apiregistration.k8s.io',
  'apps',
  'events.k8s.io',
  'authentication.k8s.io',
  'authorization.k8s.io',
  'certificates.k8s.io',
  'networking.k8s.io',
  'policy',
  'rbac.authorization.k8s.io',
  'admissionregistration.k8s.io',
  'apiextensions.k8s.io',
  'coordination.k8s.io',
  'discovery.k8s.io',
];

/** Served groups and versions in discovery order: built-in groups before groups of CRDs, which are sorted by name. */
export function groupsOf(types: readonly ResourceType[]): readonly ServedGroup[] {
  return [...Map.groupBy(types, ({ group }) => group)]
    .map(([name, members]) => ({ name, versions: versionsOf(name, members) }))
    .toSorted((left, right) => compareGroups(left.name, right.name));
}

function versionsOf(group: string, types: readonly ResourceType[]): readonly ServedVersion[] {
  return [...Map.groupBy(types, ({ version }) => version)]
    .map(([version, members]) => ({
      version,
      groupVersion: apiVersionOf({ group, version }),
      types: members.toSorted((left, right) => compareText(left.resource, right.resource)),
    }))
    .toSorted((left, right) => compareVersions(left.version, right.version));
}

function compareGroups(left: string, right: string): number {
  const [a, b] = [PRIORITY.indexOf(left), PRIORITY.indexOf(right)];
  if (a === -1 && b === -1) return compareText(left, right);
  return a === -1 ? 1 : b === -1 ? -1 : a - b;
}
/** All subresources of a resource by name, with the kinds that they read and write. */
export function subresourcesOf({ group, version, kind, hasStatus, scale }: ResourceType) {
  const verbs = ['get', 'patch', 'update'] as const;
  return [
    ...(scale === undefined
      ? []
      : [{ name: 'scale', group: 'autoscaling', version: 'v1', kind: 'Scale', verbs }]),
    ...(hasStatus ? [{ name: 'status', group, version, kind, verbs }] : []),
  ];
}

const toResourceList = ({ groupVersion, types }: ServedVersion): JsonObject => ({
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

function toGroup({ name, versions }: ServedGroup): JsonObject {
  const shown = versions.map(({ groupVersion, version }) => ({ groupVersion, version }));
  return { name, versions: shown, preferredVersion: shown[0] ?? {} };
}

const toAggregatedGroup = ({ name, versions }: ServedGroup): JsonObject => ({
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
  verbs,
  ...responseKind
}: ReturnType<typeof subresourcesOf>[number]): JsonObject => ({
  subresource: name,
  responseKind: { ...responseKind },
  verbs,
});
