/** On the leader: writes the status of AdmissionPolicies. */
import { hasAudit } from '../../admission/policy/audit.ts';
import type { CompiledPolicy } from '../../admission/policy/compile.ts';
import { uncoveredSubresources } from '../../admission/policy/match/uncovered-subresources.ts';
import type { AdmissionPolicy, AdmissionPolicyStatus } from '../../api/admission-policy.ts';
import type { KubeClient } from '../../kube/client.ts';
import { setCondition } from '../../kube/conditions.ts';
import { keyOf, type Condition } from '../../json/kube-object.ts';
import type { Store } from '../../kube/store.ts';
import type { Context } from '../context.ts';
import { startController, type Reconcile, type RunningController } from '../controller.ts';
import { ADMISSION_POLICIES } from '../resources.ts';
import type { Replica } from '../webhook-process.ts';
import { conditionsOf, createStatusReconciler } from './compiled-state.ts';
import type { PolicyRegistry, PolicyState } from './policy-registry.ts';

/** What the status reports besides the state of the policy on this replica. */
export interface PolicyFacts {
  /** Whether the API server calls Gatehouse for this version; undefined when that is not known yet. */
  readonly isInstalled: (policy: CompiledPolicy) => boolean | undefined;
  /** Why the API server refuses the webhooks of this version, if it does. */
  readonly refusal: (policy: CompiledPolicy) => string | undefined;
  /** The last result of the audit; undefined when this leader has not audited the policy. */
  readonly violations: (name: string) => AdmissionPolicyStatus['violations'];
}

export function createPolicyStatusReconciler(
  client: Pick<KubeClient, 'replaceStatus'>,
  policies: Pick<Store<AdmissionPolicy>, 'get'>,
  registry: Pick<PolicyRegistry, 'get' | 'inForce'>,
  { isInstalled, refusal, violations }: PolicyFacts,
  now: () => Date,
): Reconcile {
  return createStatusReconciler(ADMISSION_POLICIES, client, policies, registry, (state, policy) => {
    const {
      metadata: { name = '' },
      status: before = {},
    } = policy;
    const installed = state.inForce === undefined ? false : isInstalled(state.inForce);
    if (installed === undefined) return before;
    // Counts of checks that the policy no longer has, or no longer audits, would stay forever.
    const isAudited = state.inForce === undefined || hasAudit(state.inForce);
    const found = isAudited ? (violations(name) ?? before.violations) : undefined;
    // Until the API server follows the new version, it follows the previous one, also after a restart.
    const enforced = installed ? state.inForce : before.inForce;
    const installation = installationOf(state, installed, refusal);
    const shown = {
      ...state,
      inForce: enforced,
      problem: state.problem ?? (installed ? undefined : installation),
    };
    const verbs = ['is enforced', 'nothing is enforced'] as const;
    const conditions = conditionsOf(shown, verbs, installation, before.conditions, now());
    return {
      conditions: withCoverage(conditions, state, registry.inForce(), now()),
      ...(enforced === undefined
        ? {}
        : { inForce: { generation: enforced.generation, spec: enforced.spec } }),
      ...(found === undefined ? {} : { violations: found }),
    };
  });
}

const COVERAGE = 'SubresourcesCovered';

/** Adds a condition for subresources that change an object without asking the policy; none if there are none. */
function withCoverage(
  conditions: readonly Condition[],
  { inForce, generation }: PolicyState,
  all: readonly CompiledPolicy[],
  now: Date,
): readonly Condition[] {
  const gaps = inForce === undefined ? [] : uncoveredSubresources(inForce, all);
  if (gaps.length === 0) return conditions.filter(({ type }) => type !== COVERAGE);
  const found = { type: COVERAGE, status: 'False' as const, reason: 'NotCovered', message: gaps.join('; ') };
  return setCondition(conditions, { ...found, observedGeneration: generation }, now);
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

export function startPolicyStatus(
  context: Context,
  { registry, policies, webhooks }: Replica,
  facts: Omit<PolicyFacts, 'isInstalled'>,
  signal: AbortSignal,
): RunningController {
  const now = () => new Date();
  const all = { ...facts, isInstalled: registry.isInstalled };
  const reconcile = createPolicyStatusReconciler(context.client, policies.store, registry, all, now);
  const controller = startController(context, { name: 'policy-status', reconcile }, signal);
  registry.subscribe(controller.add, signal);
  policies.onChange(controller.add, signal);
  const addAll = () => {
    for (const policy of policies.store.list()) controller.add(keyOf(policy));
  };
  webhooks.onChange(addAll, signal);
  addAll();
  return controller;
}
