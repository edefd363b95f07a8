/** The kinds that a policy governs and reads. */
import type { CompiledPolicy } from '../../admission/policy/compile.ts';
import { unservedKinds, type UnservedKinds } from '../../admission/policy/match/unserved-kinds.ts';
import type { AdmissionPolicy } from '../../api/admission-policy.ts';
import { toGroupResource } from '../../api/policy-match.ts';
import { groupResourceName, type GroupResource } from '../../json/kube-object.ts';
import { uniqueBy } from '../../json/objects.ts';
import type { Discovery } from '../../kube/discovery.ts';
import type { Resource } from '../../kube/object.ts';
import type { ReadAccess } from './read-access.ts';
import type { Targets } from './targets.ts';

export interface KindsOptions {
  readonly discovery: Pick<Discovery, 'resolve' | 'servedIn' | 'groups' | 'serverVersion'>;
  readonly targets: Pick<Targets, 'ensure'>;
  readonly canRead: ReadAccess;
}

/**
 * Resolves the targets and the governed kinds. The scope of the governed kinds matters: a cluster-scoped object cannot
 * refer to its own namespace.
 */
export async function resolveKinds(
  { spec }: AdmissionPolicy,
  { discovery }: { readonly discovery: Pick<Discovery, 'resolve'> },
  signal: AbortSignal,
): Promise<ReadonlyMap<string, Resource>> {
  const targets = namedKinds(spec);
  if (targets.length === 0) return new Map();
  const wanted = uniqueBy([...targets, ...governed(spec)], groupResourceName);
  const resolved = await Promise.all(wanted.map((resource) => discovery.resolve(resource, signal)));
  return new Map(resolved.flatMap((kind) => (kind === undefined ? [] : [[groupResourceName(kind), kind]])));
}

/** Undefined if it is unknown: an API server that does not answer must not keep a policy from being enforced. */
export async function unservedNow(
  { match }: Pick<CompiledPolicy, 'match'>,
  { discovery }: Pick<KindsOptions, 'discovery'>,
  signal: AbortSignal,
): Promise<UnservedKinds | undefined> {
  const served = new Map<string, readonly Resource[] | undefined>();
  for (const group of match.apiGroups) {
    const found = discovery.servedIn(group, signal).catch(() => undefined);
    served.set(group, await found);
  }
  signal.throwIfAborted();
  const servedIn = (group: string) => served.get(group);
  if (unservedKinds(match, servedIn) === undefined) return undefined;
  return unservedKinds(match, servedIn, await discovery.groups(signal).catch(() => []));
}

/** Watches the targets, unless the policy needs kinds that this process may not read: returns these kinds. */
export async function watchTargets(
  policy: CompiledPolicy,
  options: KindsOptions,
  signal: AbortSignal,
): Promise<readonly GroupResource[]> {
  const forbidden = await unreadable(policy, options, signal);
  if (forbidden.length > 0) return forbidden;
  await Promise.all(
    policy.targets.map(async (target) => {
      const resource = await options.discovery.resolve(target, signal);
      if (resource !== undefined) await options.targets.ensure(resource, target.whole, signal);
    }),
  );
  return [];
}

/**
 * The kinds that the policy needs but this process may not read: its targets, and the governed kinds if the policy
 * searches them.
 */
async function unreadable(
  policy: CompiledPolicy,
  { canRead }: KindsOptions,
  signal: AbortSignal,
): Promise<readonly GroupResource[]> {
  const { references, unique, preservesOwners } = policy;
  const isSearching = references.length > 0 || unique.length > 0 || preservesOwners;
  const searched = isSearching ? governed(policy) : [];
  const needed = uniqueBy<GroupResource>([...policy.targets, ...searched], groupResourceName);
  const readable = await Promise.all(needed.map((resource) => canRead(resource, signal)));
  return needed.filter((_resource, index) => !readable[index]);
}

/** The kinds that a policy names: the targets of its references, and the kind of its params. */
export function namedKinds({ validate, params }: AdmissionPolicy['spec']): readonly GroupResource[] {
  const targets = (validate?.references ?? []).map(({ target }) => target);
  return [...targets, ...(params === undefined ? [] : [params])].map(toGroupResource);
}

/** The kinds whose objects a policy governs, without subresources. */
export function governed({
  match,
}: {
  readonly match: { readonly apiGroups: readonly string[]; readonly resources: readonly string[] };
}): readonly GroupResource[] {
  const resources = match.resources.filter((resource) => !resource.includes('/'));
  return match.apiGroups.flatMap((group) =>
    resources.map((resource) => toGroupResource({ apiGroup: group, resource })),
  );
}
