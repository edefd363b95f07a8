/** Finds the governed kinds that the API server does not serve: such a policy does nothing. */
import { nearest } from '../../../cel/compile/compile-select.ts';
import { groupResourceName } from '../../../json/kube-object.ts';
import type { CompiledMatch } from '../compiled-policy.ts';
import { isResourcePattern, splitResource } from './resource-pattern.ts';
import { SUBRESOURCES } from './subresources.ts';

export interface ServedResource {
  readonly resource: string;
  readonly version: string;
}

/** What the API server serves in a group; undefined if that is unknown. */
export type ServedInGroup = (group: string) => readonly ServedResource[] | undefined;

type Governs = Pick<CompiledMatch, 'apiGroups' | 'apiVersions' | 'resources'>;

const ANY = '*';

export interface UnservedKinds {
  readonly message: string;
  /** Whether the policy governs nothing at all. */
  readonly isEverything: boolean;
}

/** A resource only has to exist in one of the groups and versions. @param knownGroups for suggestions */
export function unservedKinds(
  match: Governs,
  servedIn: ServedInGroup,
  knownGroups: readonly string[] = [],
): UnservedKinds | undefined {
  const { apiGroups, resources, apiVersions } = match;
  const groups = apiGroups.filter((group) => !group.includes(ANY));
  const served = groups.map((group) => ({ group, all: servedIn(group) }));
  const isUnknown = groups.length < apiGroups.length || served.some(({ all }) => all === undefined);
  if (isUnknown || !resources.every(isResourcePattern)) return undefined;
  const names = [...new Set(resources.map((pattern) => splitResource(pattern).resource))];
  const isNamed = ({ resource }: ServedResource) => names.includes(ANY) || names.includes(resource);
  const named = served.flatMap(({ all = [] }) => all.filter(isNamed));
  const isInVersion = ({ version }: ServedResource) =>
    apiVersions.includes(ANY) || apiVersions.includes(version);
  const wrong = resources.flatMap((pattern) => unservedSubresource(pattern, served) ?? []);
  const message =
    unservedResource(names, served, knownGroups) ??
    unservedGroup(names, served, isNamed) ??
    (named.some(isInVersion) ? undefined : unservedVersion(match, named, groups)) ??
    wrong[0];
  const isEverything = !named.some(isInVersion) || wrong.length === resources.length;
  return message === undefined ? undefined : { message, isEverything };
}

/** Subresources of other releases of Kubernetes are right: a policy may name them in advance. */
function unservedSubresource(pattern: string, served: Served): string | undefined {
  const { resource, subResource } = splitResource(pattern);
  const recorded = SUBRESOURCES.filter(({ group }) => served.some((one) => one.group === group));
  const existing = [...served.flatMap(({ all = [] }) => all), ...recorded]
    .map((one) => splitResource(one.resource))
    .filter((one) => resource === ANY || one.resource === resource)
    .map((one) => one.subResource);
  if (['', ANY, ...existing].includes(subResource) || existing.includes(ANY)) return undefined;
  const names = [...new Set(existing)].filter((name) => name !== '').sort();
  const correction = names.length === 0 ? 'there are none, so remove it' : `name one of ${names.join(', ')}`;
  return `the API server serves no ${pattern}. Subresources of ${resource}: ${correction}`;
}

type Served = readonly { readonly group: string; readonly all: readonly ServedResource[] | undefined }[];

function unservedResource(
  names: readonly string[],
  served: Served,
  knownGroups: readonly string[],
): string | undefined {
  const isServed = (name: string) =>
    name === ANY || served.some(({ all = [] }) => all.some(({ resource }) => resource === name));
  const resource = names.find((name) => !isServed(name));
  if (resource === undefined) return undefined;
  const kinds = served.map(({ group }) => groupResourceName({ group, resource }));
  return missing(kinds, meantResource(resource, served) ?? meantGroup(resource, served, knownGroups));
}

function unservedGroup(
  names: readonly string[],
  served: Served,
  isNamed: (one: ServedResource) => boolean,
): string | undefined {
  const group = served.find(({ all = [] }) => !all.some(isNamed))?.group;
  if (group === undefined) return undefined;
  return names.includes(ANY)
    ? missing([`resource of the group ${group}`])
    : missing(names.map((resource) => groupResourceName({ group, resource })));
}

const missing = (names: readonly string[], meant?: string): string =>
  `the API server serves no ${names.join(' and no ')}: ` +
  (meant === undefined
    ? 'install its CustomResourceDefinition, or correct spec.match'
    : `did you mean ${meant}?`);

function meantResource(resource: string, served: Served): string | undefined {
  const elsewhere = SUBRESOURCES.find((one) => splitResource(one.resource).resource === resource)?.group;
  if (elsewhere !== undefined && !served.some(({ group }) => group === elsewhere))
    return groupResourceName({ group: elsewhere, resource });
  const candidates = served.flatMap(({ group, all = [] }) =>
    all.map((one) => ({ group, resource: one.resource })),
  );
  const meant = nearest(
    resource,
    candidates.map((one) => one.resource),
  );
  const found = candidates.find((one) => one.resource === meant);
  return found && groupResourceName(found);
}

function meantGroup(resource: string, served: Served, knownGroups: readonly string[]): string | undefined {
  const empty = served.find(({ all = [] }) => all.length === 0)?.group;
  const group = empty === undefined ? undefined : nearest(empty, knownGroups, 2);
  return group === undefined ? undefined : groupResourceName({ group, resource });
}

function unservedVersion(
  { apiVersions }: Governs,
  named: readonly ServedResource[],
  [group = '']: readonly string[],
): string {
  const versions = [...new Set(named.map(({ version }) => version))].join(', ');
  const name = groupResourceName({ group, resource: named[0]?.resource ?? ANY });
  return `the API server serves ${name} in ${versions}, and not in ${apiVersions.join(', ')}: correct spec.match.apiVersions`;
}
