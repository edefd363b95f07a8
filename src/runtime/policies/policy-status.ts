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
  /** The generation of the policy that the webhook configurations in the API server carry. */
  readonly installed: (name: string) => number | undefined;
  /** The last result of the audit; undefined when this leader has not audited the policy. */
  readonly violations: (name: string) => AdmissionPolicyStatus['violations'];
}

export function createPolicyStatusReconciler(
  client: Pick<KubeClient, 'replaceStatus'>,
  policies: Pick<Store<AdmissionPolicy>, 'get'>,
  registry: Pick<PolicyRegistry, 'get' | 'inForce'>,
  { installed, violations }: PolicyFacts,
  now: () => Date,
): Reconcile {
  return createStatusReconciler(ADMISSION_POLICIES, client, policies, registry, (state, policy) => {
    const {
      metadata: { name = '' },
      status: before = {},
    } = policy;
    // Counts of checks that the policy no longer has, or no longer audits, would stay forever.
    const isAudited = state.inForce === undefined || hasAudit(state.inForce);
    const found = isAudited ? (violations(name) ?? before.violations) : undefined;
    const verbs = ['is enforced', 'nothing is enforced'] as const;
    const installation = installationOf(state, installed(name));
    const conditions = conditionsOf(state, verbs, installation, before.conditions, now());
    return {
      conditions: withCoverage(conditions, state, registry.inForce(), now()),
      ...inForceOf(state, before),
      ...(found === undefined ? {} : { violations: found }),
    };
  });
}

function installationOf({ inForce }: PolicyState, installed: number | undefined) {
  const type = 'WebhooksInstalled';
  if (inForce === undefined || installed !== inForce.generation) {
    const message = 'the API server does not ask Gatehouse for this policy';
    return { type, status: 'False' as const, reason: 'NotInstalled', message };
  }
  const message = `the API server asks Gatehouse, as of generation ${installed}`;
  return { type, status: 'True' as const, reason: 'Installed', message };
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

/** If nothing is in force, the last version in force stays in the status: replicas enforce it once it compiles. */
function inForceOf(
  { inForce }: PolicyState,
  before: AdmissionPolicyStatus,
): Pick<AdmissionPolicyStatus, 'inForce'> {
  if (inForce !== undefined) return { inForce: { generation: inForce.generation, spec: inForce.spec } };
  return before.inForce === undefined ? {} : { inForce: before.inForce };
}

export function startPolicyStatus(
  context: Context,
  { registry, policies }: Replica,
  facts: PolicyFacts,
  signal: AbortSignal,
): RunningController {
  const now = () => new Date();
  const reconcile = createPolicyStatusReconciler(context.client, policies.store, registry, facts, now);
  const controller = startController(context, { name: 'policy-status', reconcile }, signal);
  registry.subscribe(controller.add, signal);
  policies.onChange(controller.add, signal);
  for (const policy of policies.store.list()) controller.add(keyOf(policy));
  return controller;
}
