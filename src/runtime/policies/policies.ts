/**
 * On every replica: compiles and enforces AdmissionPolicies. If a version cannot be enforced, the previous version
 * stays in force. A replica that has just started reads the previous version from `status.inForce`.
 */
import { isDeepStrictEqual } from 'node:util';

import { describeRead, isOwnSecret, readsOf } from '../../admission/policy/author-reads.ts';
import {
  compilePolicy,
  type CompiledPolicy,
  type CompileEnvironment,
} from '../../admission/policy/compile.ts';
import type { JsonObject } from '../../json/json.ts';
import type { AdmissionPolicy } from '../../api/admission-policy.ts';
import { groupResourceName, type GroupResource } from '../../json/kube-object.ts';
import { pick } from '../../json/objects.ts';
import { ownSecretMessage, recordIn } from './author-review.ts';
import type { PolicyProblem } from './compiled-state.ts';
import { compilePrevious, describeProblems, previousOf } from './previous-version.ts';
import type { PolicyRegistry, PolicyState } from './policy-registry.ts';
import { missingAccessMessage, type ReadAccess } from './read-access.ts';
import { READS_REVIEWED, type ReadRecords } from './read-records.ts';
import type { Discovery } from '../../kube/discovery.ts';
import type { Log } from '../../log.ts';
import type { Resource } from '../../kube/object.ts';
import type { Store } from '../../kube/store.ts';
import { GONE, requeueIn, type Reconcile, type ReconcileResult } from '../controller.ts';
import { rulesOf } from '../../admission/webhooks/installed-rules.ts';
import type { DryRun } from '../webhooks/dry-run.ts';
import type { CrdSchemas } from './crd-schemas.ts';
import type { Targets } from './targets.ts';

export interface PoliciesOptions {
  readonly policies: Pick<Store<AdmissionPolicy>, 'get'>;
  readonly discovery: Pick<Discovery, 'resolve'>;
  readonly targets: Pick<Targets, 'ensure'>;
  readonly canRead: ReadAccess;
  readonly schemas: CrdSchemas;
  readonly dryRun: DryRun;
  readonly environment: Pick<CompileEnvironment, 'ownNamespace' | 'matchConditions'>;
  readonly registry: Pick<PolicyRegistry, 'get' | 'set' | 'remove'>;
  readonly records: Pick<ReadRecords, 'verdict'> & {
    readonly whenSynced: (signal: AbortSignal) => Promise<void>;
  };
  readonly now: () => Date;
  readonly log: Log;
}

/** When to retry, in milliseconds. A missing CRD or ClusterRole may have been created, and no watch reports it. */
const RETRY_MS = 5_000;
/** When to check again, in milliseconds: permissions can be revoked. */
const RECHECK_MS = 5 * 60_000;

export function createPoliciesReconciler(options: PoliciesOptions): Reconcile {
  return async (name, signal) => {
    const policy = options.policies.get(name);
    if (policy === undefined) {
      options.registry.remove(name);
      return GONE;
    }
    try {
      return await enforce(name, policy, options, signal);
    } catch (error) {
      signal.throwIfAborted(); // whether the author's reads were reviewed may not be known yet
      // One policy whose kinds cannot be read must not keep the others from being enforced after a restart.
      if (options.registry.get(name) === undefined) options.registry.set(name, unresolved(policy, options));
      throw error;
    }
  };
}

async function enforce(
  name: string,
  policy: AdmissionPolicy,
  options: PoliciesOptions,
  signal: AbortSignal,
): Promise<ReconcileResult> {
  const before = options.registry.get(name);
  const judged = await judge(policy, options, signal);
  // The API server may still follow the version before this one, for which no other replica has to be running.
  if (before === undefined && judged.kind === 'usable' && isReplacement(policy)) {
    const previous = await lastInForce(policy, options, signal);
    const { generation } = judged.policy;
    if (previous !== undefined)
      options.registry.set(name, { inForce: previous, problem: undefined, generation });
  }
  const kept = before?.inForce?.undecidable === undefined ? before?.inForce : undefined;
  const inForce =
    judged.kind === 'usable' ? judged.policy : (kept ?? (await lastInForce(policy, options, signal)));
  const problem = judged.kind === 'usable' ? undefined : withEffect(judged.problem, inForce);
  const state: PolicyState = { inForce, problem, generation: generationOf(policy) };
  const again = requeueIn(problem === undefined ? RECHECK_MS : RETRY_MS, options.now());
  // The generation is not enough: it stays the same when a policy is recreated, or when a target changes its scope.
  if (isSame(before, state)) return again;
  options.registry.set(name, state);
  if (problem === undefined)
    options.log.info({ policy: name, generation: generationOf(policy) }, 'policy in force');
  else
    options.log.warn(
      { policy: name, reason: problem.reason, problem: problem.message },
      'policy cannot be enforced',
    );
  return again;
}

const withEffect = (problem: PolicyProblem, inForce: CompiledPolicy | undefined): PolicyProblem => {
  if (inForce?.undecidable === undefined) return problem;
  const effect = 'the version in force cannot be evaluated: requests in its scope are refused';
  return { ...problem, message: `${problem.message}\n${effect}` };
};

type Judgement =
  | { readonly kind: 'usable'; readonly policy: CompiledPolicy }
  | { readonly kind: 'unusable'; readonly problem: PolicyProblem };

async function judge(
  policy: AdmissionPolicy,
  options: PoliciesOptions,
  signal: AbortSignal,
): Promise<Judgement> {
  const unread = await unreviewedProblem(policy, options, signal);
  if (unread !== undefined) return { kind: 'unusable', problem: unread };
  const kinds = await resolveKinds(policy, options, signal);
  const result = compilePolicy(policy, {
    ...options.environment,
    resolve: (resource) => kinds.get(groupResourceName(resource)),
    schemas: await schemasOf(policy, options, signal),
  });
  if (result.kind === 'rejected') {
    return {
      kind: 'unusable',
      problem: { reason: result.reason, message: describeProblems(result.problems) },
    };
  }
  const forbidden = await watchTargets(result.policy, options, signal);
  if (forbidden.length > 0) {
    const message = missingAccessMessage(policy.metadata.name ?? '', forbidden);
    return { kind: 'unusable', problem: { reason: 'Forbidden', message } };
  }
  const objection = isAccepted(policy, result.policy, options)
    ? undefined
    : await options.dryRun(result.policy, signal);
  if (objection === undefined) return { kind: 'usable', policy: result.policy };
  const message = `the API server refuses the webhooks of this policy: ${objection}`;
  return { kind: 'unusable', problem: { reason: 'WebhooksRefused', message } };
}

/** Whether the API server has accepted the webhooks of this version before. */
function isAccepted(
  { metadata, spec, status }: AdmissionPolicy,
  policy: CompiledPolicy,
  { registry }: PoliciesOptions,
): boolean {
  const before = registry.get(metadata.name ?? '')?.inForce;
  if (before !== undefined) return isDeepStrictEqual(rulesOf([before]), rulesOf([policy]));
  return isDeepStrictEqual(status?.inForce?.spec, spec);
}

/** A policy that reads what its author may not read, as far as Gatehouse knows. */
async function unreviewedProblem(
  { metadata, spec }: AdmissionPolicy,
  { records, environment: { ownNamespace } }: PoliciesOptions,
  signal: AbortSignal,
): Promise<PolicyProblem | undefined> {
  await records.whenSynced(signal);
  const { name = '' } = metadata;
  const reads = readsOf(spec);
  if (reads.some((read) => isOwnSecret(read, ownNamespace)))
    return { reason: 'Forbidden', message: ownSecretMessage(ownNamespace) };
  if (records.verdict(name, spec, recordIn({ metadata })) !== 'unreviewed') return undefined;
  const message =
    `this version was written while the webhook of Gatehouse was down or not installed: whether its author may ` +
    `${reads.map(describeRead).join(', ')} is unknown. Write it again as a user who may:\n` +
    `kubectl annotate admissionpolicies ${name} ${READS_REVIEWED}=again --overwrite`;
  return { reason: 'ReadsNotReviewed', message };
}

/**
 * Only expressions use schemas. If the schema of one kind is unknown, no schema is used: an expression may be meant for
 * that kind.
 */
async function schemasOf(
  { spec }: AdmissionPolicy,
  { schemas }: PoliciesOptions,
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

/** Whether the version that the API server follows, as far as known, is another one. */
const isReplacement = ({ spec, status }: AdmissionPolicy): boolean =>
  status?.inForce !== undefined && !isDeepStrictEqual(status.inForce.spec, spec);

/** The version with its webhooks. It reads nothing, and its requests are refused. */
function refusing(
  previous: AdmissionPolicy,
  { environment }: PoliciesOptions,
  undecidable: NonNullable<CompiledPolicy['undecidable']>,
): CompiledPolicy | undefined {
  const last = compilePrevious(previous, environment, () => undefined);
  return last && { ...last, targets: [], undecidable };
}

const UNREVIEWED = {
  message:
    'whether its author may read what it reads is unknown: write the policy again as a user with these permissions',
  isTemporary: false,
};

/** A restart must not end the enforcement of a version whose successor is invalid. */
async function lastInForce(
  policy: AdmissionPolicy,
  options: PoliciesOptions,
  signal: AbortSignal,
): Promise<CompiledPolicy | undefined> {
  const previous = previousOf(policy);
  if (previous === undefined) return undefined;
  const { metadata, spec } = previous;
  // Without the record, users who may write the status could let any spec read. Its webhooks stay: without them, the
  // loss of the key would let requests bypass the policy.
  if (options.records.verdict(metadata.name ?? '', spec, policy.status?.inForce?.record) === 'unreviewed')
    return refusing(previous, options, UNREVIEWED);
  const kinds = await resolveKinds(previous, options, signal);
  const last = compilePrevious(previous, options.environment, (resource) =>
    kinds.get(groupResourceName(resource)),
  );
  // If watching is forbidden now, checks read from the API server instead, and answer `retry` when they cannot.
  if (last !== undefined) await watchTargets(last, options, signal);
  return last;
}

/** The state of a policy after a restart while the API server does not say what the kinds of the policy are. */
function unresolved(policy: AdmissionPolicy, options: PoliciesOptions): PolicyState {
  const previous = previousOf(policy);
  const message = 'could not read from the API server what its kinds are';
  return {
    inForce: previous && refusing(previous, options, { message, isTemporary: true }),
    problem: { reason: 'DiscoveryFailed', message },
    generation: generationOf(policy),
  };
}

/**
 * Resolves the targets and the governed kinds. The scope of the governed kinds matters: a cluster-scoped object cannot
 * refer to its own namespace.
 */
async function resolveKinds(
  { spec }: AdmissionPolicy,
  options: PoliciesOptions,
  signal: AbortSignal,
): Promise<ReadonlyMap<string, Resource>> {
  const targets = namedKinds(spec);
  if (targets.length === 0) return new Map();
  const wanted = distinct([...targets, ...governed(spec)]);
  const resolved = await Promise.all(wanted.map((resource) => options.discovery.resolve(resource, signal)));
  return new Map(resolved.flatMap((kind) => (kind === undefined ? [] : [[groupResourceName(kind), kind]])));
}

/** Watches the targets, unless the policy needs kinds that this process may not read: returns these kinds. */
async function watchTargets(
  policy: CompiledPolicy,
  options: PoliciesOptions,
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

const distinct = (kinds: readonly GroupResource[]): readonly GroupResource[] => [
  ...new Map(kinds.map((kind) => [groupResourceName(kind), kind])).values(),
];

/** The kinds that a policy names: the targets of its references, and the kind of its params. */
export function namedKinds({ validate, params }: AdmissionPolicy['spec']): readonly GroupResource[] {
  const named = [
    ...(validate?.references ?? []).map(({ target }) => target),
    ...(params === undefined ? [] : [params]),
  ];
  return named.map(({ apiGroup, resource }) => ({ group: apiGroup ?? '', resource }));
}

/** The inputs from which the expressions, schemas and paths of a policy are compiled. */
const INPUTS = [
  ...(['name', 'generation', 'entryId', 'match', 'references', 'params'] as const),
  ...(['targets', 'spec', 'undecidable'] as const),
];

/** Whether both states enforce and report the same: compiled from the same rules, with the same kinds. */
function isSame(before: PolicyState | undefined, after: PolicyState): boolean {
  const comparable = (state: PolicyState | undefined) => ({
    ...state,
    inForce: state?.inForce && pick(state.inForce, ...INPUTS),
  });
  return isDeepStrictEqual(comparable(before), comparable(after));
}

/**
 * The kinds that the policy needs but this process may not read: its targets, and the governed kinds if the policy
 * searches them.
 */
async function unreadable(
  policy: CompiledPolicy,
  options: PoliciesOptions,
  signal: AbortSignal,
): Promise<readonly GroupResource[]> {
  const { references, unique, preservesOwners } = policy;
  const isSearching = references.length > 0 || unique.length > 0 || preservesOwners;
  const needed = distinct([...policy.targets, ...(isSearching ? governed(policy) : [])]);
  const readable = await Promise.all(needed.map((resource) => options.canRead(resource, signal)));
  return needed.filter((_resource, index) => !readable[index]);
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
