/** On the leader: writes the status of ConversionPolicies. */
import { isDeepStrictEqual } from 'node:util';

import { installationOf, type OwnService } from '../../admission/conversion/installation.ts';
import type { ConversionPolicy, ConversionPolicyStatus } from '../../api/conversion-policy.ts';
import type { Condition } from '../../json/kube-object.ts';
import type { KubeClient } from '../../kube/client.ts';
import { setCondition } from '../../kube/conditions.ts';
import type { Store } from '../../kube/store.ts';
import { CONVERSION_POLICIES } from '../resources.ts';
import type { ConversionRegistry, ConversionState } from './conversion-registry.ts';
import { AWAIT_CHANGE, type Reconcile } from '../controller.ts';

export interface ConversionStatusOptions {
  readonly client: Pick<KubeClient, 'replaceStatus'>;
  readonly policies: Pick<Store<ConversionPolicy>, 'get'>;
  readonly registry: Pick<ConversionRegistry, 'get'>;
  readonly service: OwnService;
  readonly now: () => Date;
}

export function createConversionStatusReconciler(options: ConversionStatusOptions): Reconcile {
  const { client, policies, registry, service, now } = options;
  return async (name, signal) => {
    const policy = policies.get(name);
    const state = registry.get(name);
    if (policy === undefined || state === undefined || state.generation !== policy.metadata.generation)
      return AWAIT_CHANGE;
    // Keep the status: the replica that wrote it had read the definition, and this replica has not.
    if (state.problem?.reason === 'DefinitionNotRead') return AWAIT_CHANGE;

    const before = policy.status ?? {};
    const status: ConversionPolicyStatus = {
      conditions: conditionsOf(state, before.conditions ?? [], service, now()),
      ...inForceOf(state, before),
    };
    // The write fails if the policy has changed since it was compiled.
    if (!isDeepStrictEqual(before, status))
      await client.replaceStatus(CONVERSION_POLICIES, { ...policy, status }, { signal });
    return AWAIT_CHANGE;
  };
}

function conditionsOf(
  { inForce, problem, generation, definition }: ConversionState,
  before: readonly Condition[],
  service: OwnService,
  now: Date,
): Condition[] {
  const stays =
    inForce === undefined ? 'nothing is converted' : `generation ${inForce.generation} stays in force`;
  const ready =
    problem === undefined
      ? { status: 'True' as const, reason: 'InForce', message: `generation ${generation} converts` }
      : { status: 'False' as const, reason: problem.reason, message: `${problem.message}\n(${stays})` };
  const observed = { observedGeneration: generation };
  const withReady = setCondition(before, { type: 'Ready', ...observed, ...ready }, now);
  const installed = { type: 'Installed', ...observed, ...installationOf(definition, service) };
  return [...setCondition(withReady, installed, now)];
}

/** The last version in force stays in the status as a fallback, unless another policy converts the kind. */
function inForceOf(
  { inForce, problem }: ConversionState,
  before: ConversionPolicyStatus,
): Pick<ConversionPolicyStatus, 'inForce'> {
  if (inForce !== undefined) return { inForce: { generation: inForce.generation, spec: inForce.spec } };
  if (before.inForce === undefined || problem?.reason === 'Conflict') return {};
  return { inForce: before.inForce };
}
