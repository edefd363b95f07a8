/** What a replica knows of a policy, and the status that follows: for AdmissionPolicies and ConversionPolicies. */
import { isDeepStrictEqual } from 'node:util';

import type { Condition, KubeObject } from '../../json/kube-object.ts';
import type { KubeClient } from '../../kube/client.ts';
import { setCondition, setReady, type NotReady } from '../../json/conditions.ts';
import type { Resource } from '../../kube/object.ts';
import type { Store } from '../../kube/store.ts';
import { AWAIT_CHANGE, type Reconcile } from '../controller.ts';

export interface CompiledState<Compiled> {
  /** The version in force: not always the newest, and undefined when no version was ever usable. */
  readonly inForce: Compiled | undefined;
  readonly problem: PolicyProblem | undefined;
  readonly generation: number;
}

export interface PolicyProblem {
  readonly reason: string;
  readonly message: string;
}

/** Problems that end when other objects change. Gatehouse retries them. */
const RETRIED: readonly string[] = [
  'DefinitionNotRead',
  'DiscoveryFailed',
  'Forbidden',
  'MissingVersion',
  'NotInstalled',
  'UnknownKind',
  'UnknownTarget',
  'UnknownVersion',
];

const whyNotReady = ({ reason }: PolicyProblem): NotReady =>
  RETRIED.includes(reason) ? 'Reconciling' : 'Stalled';

/** @param done what a version in force does, and what happens without one: `converts`, `nothing is converted` */
export function conditionsOf(
  { inForce, problem, generation }: CompiledState<{ readonly generation: number }>,
  [done, nothing]: readonly [done: string, nothing: string],
  installation: Pick<Condition, 'type' | 'status' | 'reason' | 'message'>,
  before: readonly Condition[] | undefined,
  now: Date,
): Condition[] {
  const effect = inForce === undefined ? nothing : `generation ${inForce.generation} remains in force`;
  const ready =
    problem === undefined
      ? { status: 'True' as const, reason: 'InForce', message: `generation ${generation} ${done}` }
      : { status: 'False' as const, reason: problem.reason, message: `${problem.message}\n(${effect})` };
  const observed = { observedGeneration: generation };
  const withReady = setReady(before, { ...observed, ...ready }, problem && whyNotReady(problem), now);
  return [...setCondition(withReady, { ...observed, ...installation }, now)];
}

export function createStatusReconciler<
  Policy extends KubeObject & { readonly status?: object },
  State extends CompiledState<unknown>,
>(
  resource: Resource,
  client: Pick<KubeClient, 'replaceStatus'>,
  policies: Pick<Store<Policy>, 'get'>,
  registry: { readonly get: (name: string) => State | undefined },
  statusOf: (state: State, policy: Policy) => Policy['status'],
): Reconcile {
  return async (name, signal) => {
    const policy = policies.get(name);
    const state = registry.get(name);
    if (policy === undefined || state === undefined || state.generation !== policy.metadata?.generation)
      return AWAIT_CHANGE;
    const status = statusOf(state, policy);
    // The write fails if the policy has changed since it was compiled.
    if (!isDeepStrictEqual(policy.status, status))
      await client.replaceStatus(resource, { ...policy, status }, { signal });
    return AWAIT_CHANGE;
  };
}
