/** On the leader: writes the status of AdmissionPolicies. */
import { isDeepStrictEqual } from 'node:util';

import type { AdmissionPolicy, AdmissionPolicyStatus } from '../../api/admission-policy.ts';
import type { KubeClient } from '../../kube/client.ts';
import { setCondition } from '../../kube/conditions.ts';
import { keyOf } from '../../json/kube-object.ts';
import type { Store } from '../../kube/store.ts';
import type { Context } from '../context.ts';
import { AWAIT_CHANGE, startController, type Reconcile, type RunningController } from '../controller.ts';
import { ADMISSION_POLICIES } from '../resources.ts';
import type { Replica } from '../webhook-process.ts';
import type { PolicyRegistry, PolicyState } from './policy-registry.ts';

export interface PolicyStatusOptions {
  readonly client: Pick<KubeClient, 'replaceStatus'>;
  readonly policies: Pick<Store<AdmissionPolicy>, 'get'>;
  readonly registry: Pick<PolicyRegistry, 'get'>;
  /** The generation of the policy that the webhook configurations in the API server carry. */
  readonly installed: (name: string) => number | undefined;
  /** The last result of the audit; undefined when this leader has not audited the policy. */
  readonly violations: (name: string) => AdmissionPolicyStatus['violations'];
  readonly now: () => Date;
}

export function createPolicyStatusReconciler(options: PolicyStatusOptions): Reconcile {
  const { client, policies, registry, installed, violations, now } = options;
  return async (name, signal) => {
    const policy = policies.get(name);
    const state = registry.get(name);
    if (policy === undefined || state === undefined || state.generation !== policy.metadata.generation)
      return AWAIT_CHANGE;

    const before = policy.status ?? {};
    const found = violations(name) ?? before.violations;
    const status: AdmissionPolicyStatus = {
      conditions: conditionsOf(state, installed(name), before.conditions ?? [], now()),
      ...inForceOf(state, before),
      ...(found === undefined ? {} : { violations: found }),
    };
    // The write fails if the policy has changed since it was compiled.
    if (!isDeepStrictEqual(before, status))
      await client.replaceStatus(ADMISSION_POLICIES, { ...policy, status }, { signal });
    return AWAIT_CHANGE;
  };
}

function conditionsOf(
  { inForce, problem, generation }: PolicyState,
  installed: number | undefined,
  before: NonNullable<AdmissionPolicyStatus['conditions']>,
  now: Date,
): NonNullable<AdmissionPolicyStatus['conditions']> {
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
  const observed = { observedGeneration: generation };
  const withReady = setCondition(before, { type: 'Ready', ...observed, ...ready }, now);
  return [...setCondition(withReady, { type: 'WebhooksInstalled', ...observed, ...webhooks }, now)];
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
  facts: Pick<PolicyStatusOptions, 'installed' | 'violations'>,
  signal: AbortSignal,
): RunningController {
  const { client } = context;
  const reconcile = createPolicyStatusReconciler({
    ...facts,
    client,
    registry,
    policies: policies.store,
    now: () => new Date(),
  });
  const controller = startController(context, { name: 'policy-status', reconcile }, signal);
  registry.subscribe(controller.add, signal);
  policies.onChange(controller.add, signal);
  for (const policy of policies.store.list()) controller.add(keyOf(policy));
  return controller;
}
