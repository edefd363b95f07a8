/** On the leader: what became of an AdmissionPolicy goes into its status. */
import { isDeepStrictEqual } from 'node:util';

import type { AdmissionPolicy, AdmissionPolicyStatus } from '../../api/admission-policy.ts';
import type { Condition } from '../../json/kube-object.ts';
import type { PolicyState } from './policy-registry.ts';
import { AWAIT_CHANGE, type Reconcile } from '../controller.ts';

export interface PolicyStatusDeps {
  readonly policy: (name: string) => AdmissionPolicy | undefined;
  readonly state: (name: string) => PolicyState | undefined;
  /** The generation of the policy that the webhook configurations in the API server carry. */
  readonly installed: (name: string) => number | undefined;
  /** What the audit found last; undefined: nothing since this leader began. */
  readonly violations: (name: string) => AdmissionPolicyStatus['violations'];
  readonly setCondition: (
    conditions: readonly Condition[],
    next: Omit<Condition, 'lastTransitionTime'>,
    now: Date,
  ) => readonly Condition[];
  /** Makes this the whole status, if the object is still the one that was judged. */
  readonly writeStatus: (
    policy: AdmissionPolicy,
    status: AdmissionPolicyStatus,
    signal: AbortSignal,
  ) => Promise<unknown>;
  readonly now: () => Date;
}

export function createPolicyStatusReconciler(deps: PolicyStatusDeps): Reconcile {
  return async (name, signal) => {
    const policy = deps.policy(name);
    const state = deps.state(name);
    if (policy === undefined || state === undefined || state.generation !== policy.metadata.generation)
      return AWAIT_CHANGE;

    const before = policy.status ?? {};
    const status: AdmissionPolicyStatus = {
      conditions: conditionsOf(state, deps.installed(name), before.conditions ?? [], deps),
      ...inForceOf(state, before),
      ...violationsOf(deps.violations(name) ?? before.violations),
    };
    if (isDeepStrictEqual(before, status)) return AWAIT_CHANGE;
    await deps.writeStatus(policy, status, signal);
    return AWAIT_CHANGE;
  };
}

function conditionsOf(
  { inForce, problem, generation }: PolicyState,
  installed: number | undefined,
  before: readonly Condition[],
  { setCondition, now }: PolicyStatusDeps,
): Condition[] {
  const stays =
    inForce === undefined ? 'nothing is enforced' : `generation ${inForce.generation} stays in force`;
  const ready =
    problem === undefined
      ? { status: 'True' as const, reason: 'InForce', message: `generation ${generation} is enforced` }
      : { status: 'False' as const, reason: problem.reason, message: `${problem.message}\n(${stays})` };
  const isInstalled = inForce !== undefined && installed === inForce.generation;
  const webhooks = isInstalled
    ? {
        status: 'True' as const,
        reason: 'Installed',
        message: `the API server asks Gatehouse, as of generation ${installed}`,
      }
    : {
        status: 'False' as const,
        reason: 'NotInstalled',
        message: 'the API server does not ask Gatehouse for this policy',
      };
  const withReady = setCondition(before, { type: 'Ready', observedGeneration: generation, ...ready }, now());
  return [
    ...setCondition(
      withReady,
      { type: 'WebhooksInstalled', observedGeneration: generation, ...webhooks },
      now(),
    ),
  ];
}

function violationsOf(
  violations: AdmissionPolicyStatus['violations'],
): Pick<AdmissionPolicyStatus, 'violations'> {
  return violations === undefined ? {} : { violations };
}

/** What was enforced stays noted when nothing can be just now: it is what a replica falls back on once it compiles again. */
function inForceOf(
  { inForce }: PolicyState,
  before: AdmissionPolicyStatus,
): Pick<AdmissionPolicyStatus, 'inForce'> {
  if (inForce !== undefined) return { inForce: { generation: inForce.generation, spec: inForce.spec } };
  return before.inForce === undefined ? {} : { inForce: before.inForce };
}
