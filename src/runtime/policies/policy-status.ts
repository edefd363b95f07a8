import { hasAudit } from '../../admission/policy/audit.ts';
import type { CompiledPolicy } from '../../admission/policy/compile.ts';
import { conflictsOf } from '../../admission/policy/conflicts.ts';
import { uncoveredSubresources } from '../../admission/policy/match/uncovered-subresources.ts';
import { updateNotes } from '../../admission/policy/mutations/update-limits.ts';
import type { AdmissionPolicy, AdmissionPolicyStatus } from '../../api/admission-policy.ts';
import type { KubeClient } from '../../kube/client.ts';
import { setCondition } from '../../json/conditions.ts';
import type { Condition } from '../../json/kube-object.ts';
import type { Store } from '../../kube/store.ts';
import type { Context } from '../context.ts';
import type { Enforcement } from '../native/native-policies.ts';
import { startController, type Reconcile, type RunningController } from '../controller.ts';
import { ADMISSION_POLICIES } from '../resources.ts';
import { recordIn } from './author-review.ts';
import type { ReadRecords, ReadsVerdict } from './read-records.ts';
import { conditionsOf, createStatusReconciler } from './compiled-state.ts';
import type { Policies, PolicyRegistry, PolicyState } from './policy-registry.ts';
import type { OwnState } from '../own-state/own-state.ts';
import type { InstalledWebhooks } from '../webhooks/installed-webhooks.ts';

interface PolicyFacts {
  /** Whether the API server calls Gatehouse for this version; undefined when that is not known yet. */
  readonly isInstalled: (policy: CompiledPolicy) => boolean | undefined;
  readonly refusal: (policy: CompiledPolicy) => string | undefined;
  /** The last result of the audit; undefined when this leader has not audited the policy. */
  readonly violations: (name: string) => AdmissionPolicyStatus['violations'];
  /** Why the leader has not acted yet after targets were deleted, and its missing permissions. Empty: no problem. */
  readonly deletions: Readonly<Record<'progress' | 'missing', (name: string) => string>>;
  /** Undefined: this process compiles no policies. The result is undefined until the first attempt. */
  readonly enforcementOf?: ((name: string) => Enforcement | undefined) | undefined;
}

export function createPolicyStatusReconciler(
  client: Pick<KubeClient, 'replaceStatus'>,
  policies: Pick<Store<AdmissionPolicy>, 'get'>,
  registry: Pick<PolicyRegistry, 'get' | 'inForce'>,
  records: Pick<ReadRecords, 'recordOf' | 'verdict'>,
  { isInstalled, refusal, violations, deletions, enforcementOf }: PolicyFacts,
  now: () => Date,
): Reconcile {
  return createStatusReconciler(ADMISSION_POLICIES, client, policies, registry, (state, policy) => {
    const { metadata, spec, status: before = {} } = policy;
    const { name = '' } = metadata;
    const installed = state.inForce === undefined ? false : isInstalled(state.inForce);
    if (installed === undefined) return policy.status;
    // Otherwise the counts of removed checks would never disappear.
    const isAudited = state.inForce === undefined || hasAudit(state.inForce);
    const found = isAudited ? (violations(name) ?? before.violations) : undefined;
    // Until the API server follows the new version, it follows the previous one, even after a restart.
    const previous = before.inForce;
    const enforced = installed ? state.inForce : previous;
    const installation = installationOf(state, installed, refusal);
    const problem = state.problem ?? (installed ? undefined : installation);
    const shown = { ...state, inForce: enforced, problem };
    const verbs = ['is enforced', 'nothing is enforced'] as const;
    const conditions = conditionsOf(shown, verbs, installation, before.conditions, now());
    const notes = (find: typeof conflictsOf) =>
      state.inForce === undefined ? '' : find(state.inForce, registry.inForce()).join('; ');
    const shortcomings = [
      { type: 'SubresourcesCovered', reason: 'NotCovered', message: notes(uncoveredSubresources) },
      { type: 'AppliedToUpdates', reason: 'ImmutableFields', message: notes(updateNotes) },
      { type: CONFLICT_FREE, reason: 'Conflicts', message: notes(conflictsOf) },
      reviewOf(records.verdict(name, spec, recordIn(policy))),
      { type: 'KindsServed', reason: 'NotServed', message: state.unserved ?? '' },
      { type: 'DeletionsFinished', reason: 'ReferrersLeft', message: deletions.progress(name) },
      { type: 'ActionsPermitted', reason: 'MissingPermission', message: deletions.missing(name) },
    ];
    // A version that cannot be evaluated is possibly not reviewed, so it must not get a new record.
    const isPrevious = !installed || state.inForce?.undecidable !== undefined;
    const inForce = isPrevious ? previous : state.inForce && withRecord(state.inForce, records);
    return {
      observedGeneration: state.generation,
      conditions: withShortcomings(conditions, shortcomings, state.generation, now()),
      ...(inForce === undefined ? {} : { inForce }),
      ...(found === undefined ? {} : { violations: found }),
      ...(enforcementOf === undefined ? {} : enforcement(enforcementOf(name) ?? before)),
    };
  });
}

function enforcement({
  enforcedBy,
  confirmed,
}: Partial<Enforcement>): Pick<AdmissionPolicyStatus, 'compiled' | 'enforcedBy' | 'confirmed'> {
  if (enforcedBy === undefined) return {};
  const native = enforcedBy.filter(({ by }) => by === 'APIServer');
  const compiled = `${native.length}/${enforcedBy.length}`;
  return { compiled, enforcedBy, ...(confirmed === undefined ? {} : { confirmed }) };
}

const CONFLICT_FREE = 'ConflictFree';

function reviewOf(verdict: ReadsVerdict): Shortcoming {
  const message =
    'the policy is older than the review of what its author may read; the next write of the policy is reviewed';
  return { type: 'ReadsReviewed', reason: 'WrittenEarlier', message: verdict === 'earlier' ? message : '' };
}

type Shortcoming = Pick<Condition, 'type' | 'reason' | 'message'>;

function withShortcomings(
  conditions: readonly Condition[],
  found: readonly Shortcoming[],
  observedGeneration: number,
  now: Date,
): Condition[] {
  const withOne = (all: readonly Condition[], one: Shortcoming) =>
    one.message === ''
      ? all.filter(({ type }) => type !== one.type)
      : [...setCondition(all, { ...one, status: 'False', observedGeneration }, now)];
  return found.reduce(withOne, [...conditions]);
}

function withRecord({ name, generation, spec }: CompiledPolicy, { recordOf }: Pick<ReadRecords, 'recordOf'>) {
  const record = recordOf(name, spec);
  return { generation, spec, ...(record === undefined ? {} : { record }) };
}

function installationOf(
  { inForce }: PolicyState,
  installed: boolean,
  refusal: PolicyFacts['refusal'],
): Parameters<typeof conditionsOf>[2] {
  const type = 'WebhooksInstalled';
  if (inForce !== undefined && installed) {
    const message = `the API server asks Gatehouse, as of generation ${inForce.generation}`;
    return { type, status: 'True', reason: 'Installed', message };
  }
  const why = inForce && refusal(inForce);
  const message = `the API server does not ask Gatehouse for this policy${why === undefined ? '' : `: ${why}`}`;
  return { type, status: 'False', reason: 'NotInstalled', message };
}

interface StatusSources extends Policies {
  readonly records: OwnState['records'];
  readonly webhooks: Pick<InstalledWebhooks, 'onChange'>;
}

export function startPolicyStatus(
  context: Context,
  { registry, policies, records, webhooks }: StatusSources,
  facts: Omit<PolicyFacts, 'isInstalled'>,
  signal: AbortSignal,
): RunningController {
  const now = () => new Date();
  const all = { ...facts, isInstalled: registry.isInstalled };
  const reconcile = createPolicyStatusReconciler(context.client, policies.store, registry, records, all, now);
  const on = [webhooks.onChange, records.onChange];
  // The change of one policy may begin or end the conflict of another.
  const conflicting: typeof registry.subscribe = (tell) =>
    registry.subscribe((name) => {
      const changed = registry.get(name)?.inForce;
      const begins = changed !== undefined && conflictsOf(changed, registry.inForce()).length > 0;
      for (const { metadata, status } of policies.store.list())
        if (begins || status?.conditions?.some(({ type }) => type === CONFLICT_FREE))
          tell(metadata.name ?? '');
    }, signal);
  const onKey = [registry.subscribe, conflicting];
  const options = { name: 'policy-status', objects: policies, on, onKey, reconcile };
  return startController(context, options, signal);
}
