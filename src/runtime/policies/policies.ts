/**
 * On every replica: AdmissionPolicy → compiled and enforced. A version that cannot be enforced leaves the one before it in
 * force; a replica that has just started finds that one in `status.inForce`.
 */
import { isDeepStrictEqual } from 'node:util';

import {
  compilePolicy,
  type CompiledPolicy,
  type CompileEnvironment,
} from '../../admission/policy/compile.ts';
import type { CompiledTarget } from '../../admission/policy/compiled-policy.ts';
import type { JsonObject } from '../../json/json.ts';
import type { AdmissionPolicy } from '../../api/admission-policy.ts';
import { groupResourceName, type GroupResource } from '../../json/kube-object.ts';
import type { PolicyProblem, PolicyRegistry, PolicyState } from './policy-registry.ts';
import { missingAccessMessage } from './read-access.ts';
import type { Log } from '../../log.ts';
import { GONE, requeueIn, type Reconcile } from '../controller.ts';

export interface ResolvedResource extends GroupResource {
  readonly kind: string;
  readonly namespaced: boolean;
}

export interface PoliciesDeps {
  readonly policy: (name: string) => AdmissionPolicy | undefined;
  /** Through discovery; undefined when the API server does not serve it (yet). */
  readonly resolve: (target: GroupResource, signal: AbortSignal) => Promise<ResolvedResource | undefined>;
  /** Whether this process may get, list and watch it. */
  readonly canRead: (resource: GroupResource, signal: AbortSignal) => Promise<boolean>;
  /** Starts to watch `target` if nobody did, and waits until it has been listed. */
  readonly watchTarget: (target: CompiledTarget, signal: AbortSignal) => Promise<void>;
  /** The structural schemas of a kind in these versions; undefined where they are not known. */
  readonly schemas: (
    resource: GroupResource,
    versions: readonly string[],
    signal: AbortSignal,
  ) => Promise<readonly JsonObject[] | undefined>;
  readonly environment: Pick<CompileEnvironment, 'ownNamespace' | 'matchConditions'>;
  readonly registry: Pick<PolicyRegistry, 'get' | 'set' | 'remove'>;
  readonly now: () => Date;
  readonly log: Log;
}

/** A CRD or a ClusterRole that was missing may be there now; nothing tells us when it comes. */
const RETRY_MS = 5_000;
/** Permissions can be taken away again. */
const RECHECK_MS = 5 * 60_000;

export function createPoliciesReconciler(deps: PoliciesDeps): Reconcile {
  return async (name, signal) => {
    const policy = deps.policy(name);
    if (policy === undefined) {
      deps.registry.remove(name);
      return GONE;
    }
    const before = deps.registry.get(name);
    const judged = await judge(policy, deps, signal);
    const inForce =
      judged.kind === 'usable'
        ? judged.policy
        : (before?.inForce ?? (await lastInForce(policy, deps, signal)));
    const problem = judged.kind === 'usable' ? undefined : judged.problem;
    const state: PolicyState = { inForce, problem, generation: generationOf(policy) };
    const again = requeueIn(problem === undefined ? RECHECK_MS : RETRY_MS, deps.now());
    // Not by generation alone: it is the same again for a policy that was made anew, or whose target changed its scope.
    if (isSame(before, state)) return again;
    deps.registry.set(name, state);
    if (problem === undefined)
      deps.log.info({ policy: name, generation: generationOf(policy) }, 'policy in force');
    else
      deps.log.warn(
        { policy: name, reason: problem.reason, problem: problem.message },
        'policy cannot be enforced',
      );
    return again;
  };
}

type Judgement =
  | { readonly kind: 'usable'; readonly policy: CompiledPolicy }
  | { readonly kind: 'unusable'; readonly problem: PolicyProblem };

async function judge(policy: AdmissionPolicy, deps: PoliciesDeps, signal: AbortSignal): Promise<Judgement> {
  const kinds = await resolveKinds(policy, deps, signal);
  const result = compilePolicy(policy, {
    ...deps.environment,
    resolve: (resource) => kinds.get(groupResourceName(resource)),
    schemas: await schemasOf(policy, deps, signal),
  });
  if (result.kind === 'rejected') {
    const message = result.problems.map(({ where, message: what }) => `${where}: ${what}`).join('; ');
    return { kind: 'unusable', problem: { reason: result.reason, message } };
  }
  const forbidden = await unreadable(result.policy, deps, signal);
  if (forbidden.length > 0) {
    return {
      kind: 'unusable',
      problem: { reason: 'Forbidden', message: missingAccessMessage(policy.metadata.name ?? '', forbidden) },
    };
  }
  await watchTargets(result.policy, deps, signal);
  return { kind: 'usable', policy: result.policy };
}

/** For expressions alone. Of several kinds, all have to be known: an expression may be meant for the one that is not. */
async function schemasOf(
  { spec }: AdmissionPolicy,
  { schemas }: PoliciesDeps,
  signal: AbortSignal,
): Promise<readonly JsonObject[]> {
  const { variables, defaults = [], mutations, validate, warnings, auditAnnotations } = spec;
  const expressive = [variables, mutations, validate?.rules, warnings, auditAnnotations].some(
    (list) => list !== undefined && list.length > 0,
  );
  if (!expressive && !defaults.some(({ expression }) => expression !== undefined)) return [];
  const all = await Promise.all(
    governed(spec).map((resource) => schemas(resource, spec.match.apiVersions ?? ['*'], signal)),
  );
  return all.includes(undefined) ? [] : all.flatMap((some) => some ?? []);
}

/** A restart must not end the enforcement of a version whose successor is broken. */
async function lastInForce(
  policy: AdmissionPolicy,
  deps: PoliciesDeps,
  signal: AbortSignal,
): Promise<CompiledPolicy | undefined> {
  const last = policy.status?.inForce;
  if (last === undefined) return undefined;
  const previous: AdmissionPolicy = {
    ...policy,
    metadata: { ...policy.metadata, generation: last.generation },
    spec: last.spec as AdmissionPolicy['spec'], // compiled below, which checks it
  };
  const kinds = await resolveKinds(previous, deps, signal);
  const result = compilePolicy(previous, {
    ...deps.environment,
    resolve: (resource) => kinds.get(groupResourceName(resource)),
  });
  if (result.kind === 'rejected') return undefined;
  // Watching may be what is forbidden now: the checks then ask the API server, and say so when they cannot decide.
  const readable = (await unreadable(result.policy, deps, signal)).length === 0;
  if (readable) await watchTargets(result.policy, deps, signal);
  return result.policy;
}

type Kinds = ReadonlyMap<string, ResolvedResource>;

/** The targets, and the governed kinds too: an object without a namespace cannot name a target in its own. */
async function resolveKinds(
  { spec }: AdmissionPolicy,
  deps: PoliciesDeps,
  signal: AbortSignal,
): Promise<Kinds> {
  const targets = namedKinds(spec);
  if (targets.length === 0) return new Map();
  const wanted = new Map(
    [...targets, ...governed(spec)].map((resource) => [groupResourceName(resource), resource]),
  );
  const resolved = await Promise.all([...wanted.values()].map((resource) => deps.resolve(resource, signal)));
  return new Map(resolved.flatMap((kind) => (kind === undefined ? [] : [[groupResourceName(kind), kind]])));
}

async function watchTargets(
  { targets }: CompiledPolicy,
  deps: PoliciesDeps,
  signal: AbortSignal,
): Promise<void> {
  await Promise.all(targets.map((target) => deps.watchTarget(target, signal)));
}

/** The kinds that a policy says it needs: those of its references, and that of its params. */
export function namedKinds({ validate, params }: AdmissionPolicy['spec']): readonly GroupResource[] {
  const named = [
    ...(validate?.references ?? []).map(({ target }) => target),
    ...(params === undefined ? [] : [params]),
  ];
  return named.map(({ apiGroup, resource }) => ({ group: apiGroup ?? '', resource }));
}

/** Whether nothing is enforced or reported differently: compiled from the same rules, with the same kinds. */
function isSame(before: PolicyState | undefined, after: PolicyState): boolean {
  const facts = (state: PolicyState | undefined) => ({
    ...state,
    inForce: state?.inForce === undefined ? undefined : factsOf(state.inForce),
  });
  return isDeepStrictEqual(facts(before), facts(after));
}

/** All that expressions, schemas and paths are compiled from. */
function factsOf({
  name,
  generation,
  entryId,
  match,
  references,
  params,
  targets,
  spec,
}: CompiledPolicy): object {
  return { name, generation, entryId, match, references, params, targets, spec };
}

/** References are looked up among the targets; objects that refer, or hold unique values, are looked for among the governed ones. */
async function unreadable(
  policy: CompiledPolicy,
  deps: PoliciesDeps,
  signal: AbortSignal,
): Promise<readonly GroupResource[]> {
  const { references, unique, preservesOwners } = policy;
  const looksAround = references.length > 0 || unique.length > 0 || preservesOwners;
  const swept = looksAround ? governed(policy) : [];
  const needed = new Map(
    [...policy.targets, ...swept].map((resource) => [groupResourceName(resource), resource]),
  );
  const answers = await Promise.all(
    [...needed.values()].map(async (resource) => ({
      resource,
      readable: await deps.canRead(resource, signal),
    })),
  );
  return answers.filter(({ readable }) => !readable).map(({ resource }) => resource);
}

/** The kinds whose objects a policy governs, without subresources. */
export function governed({
  match,
}: {
  readonly match: { readonly apiGroups: readonly (string | null)[]; readonly resources: readonly string[] };
}): readonly GroupResource[] {
  const resources = match.resources.filter((resource) => !resource.includes('/'));
  return match.apiGroups.flatMap((group) => resources.map((resource) => ({ group: group ?? '', resource })));
}

const generationOf = (policy: AdmissionPolicy): number => policy.metadata.generation ?? 0;
