/** The kinds that a policy governs and reads, and its compilation with what the API server serves now. */
import { compilePolicy, type CompileEnvironment } from '../../admission/policy/compile.ts';
import type { CompiledMatch, CompiledPolicy } from '../../admission/policy/compiled-policy.ts';
import { kindVersions, knownKinds, type KindVersion } from '../../admission/policy/match/subresources.ts';
import { unservedKinds, type UnservedKinds } from '../../admission/policy/match/unserved-kinds.ts';
import type { AdmissionPolicy } from '../../api/admission-policy.ts';
import { toGroupResource } from '../../api/policy-match.ts';
import { type GroupResource, groupResourceName, type KubeObject } from '../../json/kube-object.ts';
import { uniqueBy } from '../../json/json.ts';
import type { Discovery } from '../../kube/discovery.ts';
import type { Resource } from '../../kube/object.ts';
import type { ReadAccess } from './read-access.ts';
import type { Targets } from './world.ts';
import { memoizeAsync } from '../../json/memoize-async.ts';
import { insteadOf, isForbidden } from '../../kube/api-error.ts';
import type { KubeClient } from '../../kube/client.ts';
import { orAborted } from '../../json/abort.ts';
import { customResourceDefinitions } from '../../kube/well-known.ts';

export interface KindsOptions {
  readonly discovery: Pick<Discovery, 'resolve' | 'servedIn' | 'groups' | 'serverVersion'>;
  readonly targets: Pick<Targets, 'ensure'>;
  readonly canRead: ReadAccess;
}

/** Includes the governed kinds, because a cluster-scoped object cannot refer to its own namespace. */
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
async function unservedNow(
  { match }: Pick<CompiledPolicy, 'match'>,
  { discovery }: Pick<KindsOptions, 'discovery'>,
  signal: AbortSignal,
): Promise<UnservedKinds | undefined> {
  const served = new Map<string, readonly Resource[] | undefined>();
  for (const group of match.apiGroups) {
    served.set(group, await discovery.servedIn(group, signal).catch(() => undefined));
  }
  signal.throwIfAborted();
  const servedIn = (group: string) => served.get(group);
  if (unservedKinds(match, servedIn) === undefined) return undefined;
  return unservedKinds(match, servedIn, await discovery.groups(signal).catch(() => []));
}

/** @returns the kinds that are not readable. If there are any, nothing is watched */
export async function watchTargets(
  policy: CompiledPolicy,
  { canRead, discovery, targets: watched }: KindsOptions,
  signal: AbortSignal,
): Promise<readonly GroupResource[]> {
  const { targets, references, unique, preservesOwners, restore } = policy;
  const isSearching = references.length + unique.length + restore.uids.length > 0 || preservesOwners;
  const searched = isSearching ? governed(policy) : [];
  const needed = uniqueBy<GroupResource>([...targets, ...searched], groupResourceName);
  const readable = await Promise.all(needed.map((resource) => canRead(resource, signal)));
  const forbidden = needed.filter((_resource, index) => !readable[index]);
  if (forbidden.length > 0) return forbidden;
  await Promise.all(
    targets.map(async (target) => {
      const resource = await discovery.resolve(target, signal);
      if (resource !== undefined) await watched.ensure(resource, target.whole, signal);
    }),
  );
  return [];
}

export function namedKinds({ validate, params }: AdmissionPolicy['spec']): readonly GroupResource[] {
  const targets = (validate?.references ?? []).map(({ target }) => target);
  return [...targets, ...(params === undefined ? [] : [params])].map(toGroupResource);
}

export const governed = ({ match }: { readonly match: Pick<CompiledMatch, 'apiGroups' | 'resources'> }) =>
  match.apiGroups.flatMap((group) =>
    match.resources
      .filter((resource) => !resource.includes('/'))
      .map((resource): GroupResource => ({ group, resource })),
  );

export interface CompileOptions extends Pick<KindsOptions, 'discovery'> {
  readonly schemas: CrdVersions;
  readonly environment: Pick<CompileEnvironment, 'ownNamespace'>;
}

/** @throws if the API server does not say what the kinds are */
export async function compileLive(policy: AdmissionPolicy, options: CompileOptions, signal: AbortSignal) {
  const kinds = await resolveKinds(policy, options, signal);
  const { apiVersions = ['*'] } = policy.spec.match;
  const versions = governed(policy.spec).map((kind) => options.schemas(kind, apiVersions, signal));
  const result = compilePolicy(policy, {
    ...options.environment,
    server: (await options.discovery.serverVersion(signal)).minor,
    resolve: (resource) => kinds.get(groupResourceName(resource)),
    ...knownKinds(await Promise.all(versions)),
  });
  const { match } = result.kind === 'compiled' ? result.policy : result.incomplete;
  // A scope that could lock out the cluster is not a question of kinds.
  const isLockout = result.kind === 'rejected' && result.reason === 'LockoutScope';
  return { result, unserved: isLockout ? undefined : await unservedNow({ match }, options, signal) };
}

/** The given versions; `*` is all served versions. Empty for built-in kinds and unreadable definitions. */
type CrdVersions = (
  resource: GroupResource,
  versions: readonly string[],
  signal: AbortSignal,
) => Promise<readonly KindVersion[]>;

/** How long a definition is cached, in milliseconds: many policies govern the same kinds, and all compile at start. */
const FRESH_MS = 10_000;

export function createCrdSchemas({ get }: Pick<KubeClient, 'get'>, now: () => number): CrdVersions {
  const definitions = memoizeAsync(
    (name: string) => get<KubeObject>(customResourceDefinitions, { name }),
    (name) => name,
    { now, ttlMs: FRESH_MS },
  );
  return async (resource, versions, signal) => {
    if (!resource.group.includes('.')) return [];
    const reading = definitions.read(groupResourceName(resource));
    // Expressions compile without types too.
    const definition = await orAborted(reading.catch(insteadOf(isForbidden, undefined)), signal);
    return kindVersions(definition, resource, versions);
  };
}
