/** On the leader: what became of a ConversionPolicy goes into its status. */
import { isDeepStrictEqual } from 'node:util';

import { installationOf, type OwnService } from '../../admission/conversion/installation.ts';
import type { ConversionPolicy, ConversionPolicyStatus } from '../../api/conversion-policy.ts';
import type { Condition } from '../../json/kube-object.ts';
import type { ConversionState } from './conversion-registry.ts';
import { AWAIT_CHANGE, type Reconcile } from '../controller.ts';

export interface ConversionStatusDeps {
  readonly policy: (name: string) => ConversionPolicy | undefined;
  readonly state: (name: string) => ConversionState | undefined;
  readonly service: OwnService;
  readonly setCondition: (
    conditions: readonly Condition[],
    next: Omit<Condition, 'lastTransitionTime'>,
    now: Date,
  ) => readonly Condition[];
  /** Makes this the whole status, if the object is still the one that was judged. */
  readonly writeStatus: (
    policy: ConversionPolicy,
    status: ConversionPolicyStatus,
    signal: AbortSignal,
  ) => Promise<unknown>;
  readonly now: () => Date;
}

export function createConversionStatusReconciler(deps: ConversionStatusDeps): Reconcile {
  return async (name, signal) => {
    const policy = deps.policy(name);
    const state = deps.state(name);
    // What could not be judged says nothing: whoever wrote the status before knew more.
    if (policy === undefined || state === undefined || state.generation !== policy.metadata.generation)
      return AWAIT_CHANGE;
    if (state.problem?.reason === 'DefinitionNotRead') return AWAIT_CHANGE;

    const before = policy.status ?? {};
    const status: ConversionPolicyStatus = {
      conditions: conditionsOf(state, before.conditions ?? [], deps),
      ...inForceOf(state, before),
    };
    if (!isDeepStrictEqual(before, status)) await deps.writeStatus(policy, status, signal);
    return AWAIT_CHANGE;
  };
}

function conditionsOf(
  { inForce, problem, generation, definition }: ConversionState,
  before: readonly Condition[],
  { service, setCondition, now }: ConversionStatusDeps,
): Condition[] {
  const stays =
    inForce === undefined ? 'nothing is converted' : `generation ${inForce.generation} stays in force`;
  const ready =
    problem === undefined
      ? { status: 'True' as const, reason: 'InForce', message: `generation ${generation} converts` }
      : { status: 'False' as const, reason: problem.reason, message: `${problem.message}\n(${stays})` };
  const observed = { observedGeneration: generation };
  const withReady = setCondition(before, { type: 'Ready', ...observed, ...ready }, now());
  const installed = { type: 'Installed', ...observed, ...installationOf(definition, service) };
  return [...setCondition(withReady, installed, now())];
}

/** What converted stays noted when nothing does just now: a replica falls back on it. But not for a policy that gave way. */
function inForceOf(
  { inForce, problem }: ConversionState,
  before: ConversionPolicyStatus,
): Pick<ConversionPolicyStatus, 'inForce'> {
  if (inForce !== undefined) return { inForce: { generation: inForce.generation, spec: inForce.spec } };
  if (before.inForce === undefined || problem?.reason === 'Conflict') return {};
  return { inForce: before.inForce };
}
