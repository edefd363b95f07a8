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
  const served = groups.map((group) => servedIn(group)?.map((one) => ({ ...one, group })));
  const isUnknown = groups.length < apiGroups.length || served.includes(undefined);
  if (isUnknown || !resources.every(isResourcePattern)) return undefined;
  const kinds = served.flatMap((all = []) => all);
  const names = [...new Set(resources.map((pattern) => splitResource(pattern).resource))];
  const named = kinds.filter(({ resource }) => names.includes(ANY) || names.includes(resource));
  const isInVersion = named.some(({ version }) => apiVersions.includes(ANY) || apiVersions.includes(version));
  const wrong = resources.flatMap((pattern) => unservedSubresource(pattern, groups, kinds) ?? []);
  const message =
    unservedResource(names, groups, kinds, knownGroups) ??
    unservedGroup(names, groups, named) ??
    (isInVersion ? undefined : unservedVersion(match, named)) ??
    wrong[0];
  const isEverything = !isInVersion || wrong.length === resources.length;
  return message === undefined ? undefined : { message, isEverything };
}

interface Served extends ServedResource {
  readonly group: string;
}

/** Subresources of other releases of Kubernetes are right: a policy may name them in advance. */
function unservedSubresource(
  pattern: string,
  groups: readonly string[],
  kinds: readonly Served[],
): string | undefined {
  const { resource, subResource } = splitResource(pattern);
  const recorded = SUBRESOURCES.filter(({ group }) => groups.includes(group));
  const existing = [...kinds, ...recorded]
    .map((one) => splitResource(one.resource))
    .filter((one) => resource === ANY || one.resource === resource)
    .map((one) => one.subResource);
  if (['', ANY, ...existing].includes(subResource) || existing.includes(ANY)) return undefined;
  const names = [...new Set(existing)].filter((name) => name !== '').sort();
  const correction = names.length === 0 ? 'there are none, so remove it' : `name one of ${names.join(', ')}`;
  return `the API server serves no ${pattern}. Subresources of ${resource}: ${correction}`;
}

function unservedResource(
  names: readonly string[],
  groups: readonly string[],
  kinds: readonly Served[],
  knownGroups: readonly string[],
): string | undefined {
  const resource = names.find((name) => name !== ANY && !kinds.some((one) => one.resource === name));
  if (resource === undefined) return undefined;
  const empty = groups.find((group) => !kinds.some((one) => one.group === group));
  const group = empty === undefined ? undefined : nearest(empty, knownGroups, 2);
  const inGroup = group === undefined ? undefined : groupResourceName({ group, resource });
  return missing(
    groups.map((one) => groupResourceName({ group: one, resource })),
    meantResource(resource, groups, kinds) ?? inGroup,
  );
}

function unservedGroup(
  names: readonly string[],
  groups: readonly string[],
  named: readonly Served[],
): string | undefined {
  const group = groups.find((one) => !named.some((kind) => kind.group === one));
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

function meantResource(
  resource: string,
  groups: readonly string[],
  kinds: readonly Served[],
): string | undefined {
  const elsewhere = SUBRESOURCES.find((one) => splitResource(one.resource).resource === resource)?.group;
  if (elsewhere !== undefined && !groups.includes(elsewhere))
    return groupResourceName({ group: elsewhere, resource });
  const names = kinds.map((one) => one.resource);
  const found = kinds[names.indexOf(nearest(resource, names) ?? '')];
  return found && groupResourceName(found);
}

function unservedVersion({ apiVersions }: Governs, named: readonly Served[]): string {
  const versions = [...new Set(named.map(({ version }) => version))].join(', ');
  const name = named.slice(0, 1).map(groupResourceName).join('');
  return `the API server serves ${name} in ${versions}, and not in ${apiVersions.join(', ')}: correct spec.match.apiVersions`;
}
