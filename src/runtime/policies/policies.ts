/** On every replica: compiles and enforces AdmissionPolicies. An invalid version leaves the previous one in force. */
import { isDeepStrictEqual } from 'node:util';

import { describeRead, isOwnSecret, readsOf } from '../../admission/policy/author-reads.ts';
import { compilePolicy, type CompileEnvironment } from '../../admission/policy/compile.ts';
import type { CompiledPolicy } from '../../admission/policy/compiled-policy.ts';
import type { AdmissionPolicy } from '../../api/admission-policy.ts';
import { pick } from '../../json/json.ts';
import { ownSecretMessage, recordIn } from './author-review.ts';
import type { PolicyProblem } from './compiled-state.ts';
import {
  compileLive,
  type CompileOptions,
  governed,
  watchTargets,
  resolveKinds,
  type KindsOptions,
} from './policy-kinds.ts';
import { describeProblems } from '../../admission/policy/problem.ts';
import type { PolicyRegistry, PolicyState } from './policy-registry.ts';
import { missingAccessMessage } from './read-access.ts';
import { READS_REVIEWED, type ReadRecords } from './read-records.ts';
import type { Log } from '../../log.ts';
import type { Store } from '../../kube/store.ts';
import { GONE, requeueIn, type Reconcile, type ReconcileResult } from '../controller.ts';
import { rulesOf } from '../../admission/webhooks/webhook-configurations.ts';
import { knownKinds } from '../../admission/policy/match/subresources.ts';
import type { DryRun } from '../webhooks/dry-run.ts';
import { type GroupResource, groupResourceName } from '../../json/kube-object.ts';

export interface PoliciesOptions extends PreviousOptions {
  readonly policies: Pick<Store<AdmissionPolicy>, 'get'>;
  readonly dryRun: DryRun;
  readonly registry: Pick<PolicyRegistry, 'get' | 'set' | 'remove'>;
  readonly records: PreviousOptions['records'] & {
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
      signal.throwIfAborted(); // possibly before the records of reviews were read
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
  const generation = generationOf(policy);
  const { usable, unserved, ...judged } = await judge(policy, options, signal);
  // The API server may still follow the version before this one, for which no other replica has to be running.
  if (before === undefined && usable !== undefined && isReplacement(policy)) {
    const previous = await lastInForce(policy, options, signal);
    if (previous !== undefined)
      options.registry.set(name, { inForce: previous, problem: undefined, generation });
  }
  const kept = before?.inForce?.undecidable === undefined ? before?.inForce : undefined;
  const inForce = usable ?? kept ?? (await lastInForce(policy, options, signal));
  const problem = usable === undefined ? withEffect(judged.problem, inForce) : judged.problem;
  const state: PolicyState = { inForce, problem, generation, unserved };
  const again = requeueIn(problem === undefined ? RECHECK_MS : RETRY_MS, options.now());
  // Comparing generations is not enough: a recreated policy or another scope of a target doesn't change them.
  if (isSame(before, state)) return again;
  options.registry.set(name, state);
  if (problem === undefined) options.log.info({ policy: name, generation }, 'policy in force');
  else
    options.log.warn(
      { policy: name, reason: problem.reason, problem: problem.message },
      'policy cannot be enforced',
    );
  return again;
}

const withEffect = (problem: PolicyProblem | undefined, inForce: CompiledPolicy | undefined) => {
  if (problem === undefined || inForce?.undecidable === undefined) return problem;
  const effect = 'the version in force cannot be evaluated: requests in its scope are refused';
  return { ...problem, message: `${problem.message}\n${effect}` };
};

/** A usable policy with a problem is in force but doesn't apply to anything yet. */
async function judge(policy: AdmissionPolicy, options: PoliciesOptions, signal: AbortSignal) {
  const unread = await unreviewedProblem(policy, options, signal);
  if (unread !== undefined) return { problem: unread };
  const { result, unserved } = await compileLive(policy, options, signal);
  if (result.kind === 'rejected')
    return { problem: { reason: result.reason, message: describeProblems(result.problems) } };
  // Its webhooks are installed anyway: once the kind is served, no object must escape the policy until it is read again.
  const unknownKind =
    unserved?.isEverything === true ? { reason: 'UnknownKind', message: unserved.message } : undefined;
  const forbidden = await watchTargets(result.policy, options, signal);
  if (forbidden.length > 0) {
    const message = missingAccessMessage(policy.metadata.name ?? '', forbidden);
    return { problem: unknownKind ?? { reason: 'Forbidden', message } };
  }
  const objection = isAccepted(policy, result.policy, options)
    ? undefined
    : await options.dryRun(result.policy, signal);
  if (objection !== undefined) {
    const message = `the API server refuses the webhooks of this policy: ${objection}`;
    return { problem: { reason: 'WebhooksRefused', message } };
  }
  const missing = unknownKind === undefined ? unserved?.message : undefined;
  return { usable: result.policy, problem: unknownKind, unserved: missing };
}

function isAccepted(
  { metadata, spec, status }: AdmissionPolicy,
  policy: CompiledPolicy,
  { registry }: PoliciesOptions,
): boolean {
  const before = registry.get(metadata.name ?? '')?.inForce;
  if (before !== undefined) return isDeepStrictEqual(rulesOf([before]), rulesOf([policy]));
  return isDeepStrictEqual(status?.inForce?.spec, spec);
}

/** Without a review, the policy could read more than its author. */
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

function unresolved(policy: AdmissionPolicy, options: PoliciesOptions): PolicyState {
  const message = 'could not read from the API server what its kinds are';
  const previous = previousOf(policy);
  return {
    inForce: previous && refusing(previous, options, { message, isTemporary: true }),
    problem: { reason: 'DiscoveryFailed', message },
    generation: generationOf(policy),
  };
}

const INPUTS = [
  ...(['name', 'generation', 'entryId', 'match', 'references', 'params'] as const),
  ...(['targets', 'spec', 'scales', 'lists', 'undecidable', 'server'] as const),
];

function isSame(before: PolicyState | undefined, after: PolicyState): boolean {
  const inputsOf = (policy: CompiledPolicy | undefined) => policy && pick(policy, ...INPUTS);
  const comparable = (state?: PolicyState) => ({ ...state, inForce: inputsOf(state?.inForce) });
  return isDeepStrictEqual(comparable(before), comparable(after));
}

const generationOf = (policy: AdmissionPolicy): number => policy.metadata.generation ?? 0;

interface PreviousOptions extends KindsOptions, Pick<CompileOptions, 'schemas'> {
  readonly environment: Pick<CompileEnvironment, 'ownNamespace' | 'grants'>;
  readonly records: Pick<ReadRecords, 'verdict'>;
}

/** Whether the version that the API server follows, as far as known, is another one. */
const isReplacement = ({ spec, status }: AdmissionPolicy): boolean =>
  status?.inForce !== undefined && !isDeepStrictEqual(status.inForce.spec, spec);

function previousOf({ metadata, status }: AdmissionPolicy): AdmissionPolicy | undefined {
  if (status?.inForce === undefined) return undefined;
  const { generation, spec } = status.inForce;
  return { metadata: { ...metadata, generation }, spec: spec as AdmissionPolicy['spec'] };
}

/** These problems could lock out the cluster, or govern more than the policy says: such a version is not in force. */
const UNSAFE: readonly string[] = ['LockoutScope', 'Unsupported'];

/** If the version does not compile any more, it is in force but undecidable: its webhooks must not be removed. */
function compilePrevious(
  previous: AdmissionPolicy,
  environment: Omit<CompileEnvironment, 'resolve'>,
  resolve: CompileEnvironment['resolve'],
): CompiledPolicy | undefined {
  const result = compilePolicy(previous, { ...environment, resolve });
  if (result.kind === 'compiled') return result.policy;
  if (UNSAFE.includes(result.reason)) return undefined;
  const isTemporary = result.reason === 'UnknownTarget';
  return { ...result.incomplete, undecidable: { message: describeProblems(result.problems), isTemporary } };
}

function refusing(
  previous: AdmissionPolicy,
  { environment }: PreviousOptions,
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
  options: PreviousOptions,
  signal: AbortSignal,
): Promise<CompiledPolicy | undefined> {
  const previous = previousOf(policy);
  if (previous === undefined) return undefined;
  const { metadata, spec } = previous;
  // Without the record, users who may write the status could let any spec read.
  if (options.records.verdict(metadata.name ?? '', spec, policy.status?.inForce?.record) === 'unreviewed')
    return refusing(previous, options, UNREVIEWED);
  const kinds = await resolveKinds(previous, options, signal);
  const server = (await options.discovery.serverVersion(signal)).minor;
  const kindOf = (resource: GroupResource) => kinds.get(groupResourceName(resource));
  const { apiVersions = ['*'] } = spec.match;
  const versions = governed(spec).map((kind) => options.schemas(kind, apiVersions, signal));
  const { lists } = knownKinds(await Promise.all(versions));
  const last = compilePrevious(previous, { ...options.environment, server, lists }, kindOf);
  // If watching is forbidden now, checks read from the API server instead, and answer `retry` when they cannot.
  if (last !== undefined) await watchTargets(last, options, signal);
  return last;
}
