/** PolicyExceptions: every replica watches them, and reads them live before it denies. */
import { isDeepStrictEqual } from 'node:util';

import {
  createGrants,
  grantKey,
  grantsIn,
  grantState,
  type GrantState,
} from '../../admission/policy/exceptions/exceptions.ts';
import type { RequestWorld } from '../../admission/policy/world.ts';
import type { PolicyException } from '../../api/policy-exception.ts';
import type { KubeClient } from '../../kube/client.ts';
import { POLICY_EXCEPTIONS } from '../resources.ts';
import { watch, type WatchContext, type Watched } from '../watch.ts';
import { ALLOWED, type Decision } from '../../admission/review/decision.ts';
import { writes, type AdmissionRequest } from '../../admission/review/request.ts';
import type { PolicyRegistry } from './policy-registry.ts';
import { keyOf } from '../../json/kube-object.ts';
import { setReady, type NotReady } from '../../json/conditions.ts';
import type { Store } from '../../kube/store.ts';
import type { Context } from '../context.ts';
import { AWAIT_CHANGE, GONE, startController, type Reconcile } from '../controller.ts';

export function watchPolicyExceptions(context: WatchContext, signal: AbortSignal) {
  const indexes = { grant: (exception: PolicyException) => [grantKey(exception)] };
  const watched = watch<PolicyException>(context, { resource: POLICY_EXCEPTIONS, indexes }, signal);
  return { ...watched, grants: createGrants((key) => watched.store.byIndex('grant', key)) };
}

export const createReadGrants =
  (client: Pick<KubeClient, 'listAll'>): NonNullable<RequestWorld['readGrants']> =>
  async (namespace, signal) => {
    const options = { ...(namespace === undefined ? {} : { namespace }), signal };
    const { items } = await client.listAll<PolicyException>(POLICY_EXCEPTIONS, options);
    return grantsIn(items);
  };

/** Tells authors of PolicyExceptions, in the answer to their write, why the exception exempts nothing. */
export const createExceptionWarnings =
  (registry: Pick<PolicyRegistry, 'get'>, now: () => Date) =>
  ({ operation, object, oldObject, subResource }: AdmissionRequest): Decision => {
    if (!writes(operation) || object === undefined || subResource !== '') return ALLOWED;
    if (oldObject !== undefined && isDeepStrictEqual(object.spec, oldObject.spec)) return ALLOWED;
    const exception = object as unknown as PolicyException;
    const policy = registry.get(exception.spec.policy)?.inForce;
    const state = grantState(exception, policy, now().getTime());
    return state.kind === 'void' ? { ...ALLOWED, warnings: [`not in force: ${state.message}`] } : ALLOWED;
  };

/** @param onChange called with the policy of an exception that began or ended to apply */
export function createExceptionStatusReconciler(
  client: Pick<KubeClient, 'replaceStatus'>,
  exceptions: Pick<Store<PolicyException>, 'get'>,
  registry: Pick<PolicyRegistry, 'get'>,
  now: () => Date,
  onChange: (policy: string) => void,
): Reconcile {
  const policies = new Map<string, string>();
  const forget = (key: string, next?: string) => {
    const before = policies.get(key);
    if (next === undefined) policies.delete(key);
    else policies.set(key, next);
    if (before !== undefined && before !== next) onChange(before);
  };
  return async (key, signal) => {
    const exception = exceptions.get(key);
    if (exception === undefined) {
      forget(key);
      return GONE;
    }
    const { metadata, spec, status: before } = exception;
    const time = now();
    const state = grantState(exception, registry.get(spec.policy)?.inForce, time.getTime());
    forget(key, spec.policy);
    const generation = metadata.generation ?? 0;
    // By the status, because an exception may expire while there is no leader.
    const wasInForce =
      before?.conditions?.some(({ type, status: is }) => type === 'Ready' && is === 'True') === true;
    if (wasInForce !== (state.kind === 'in-force') || before?.observedGeneration !== generation)
      onChange(spec.policy);
    const { why, ...ready } = readiness(state, exception);
    const observed = { ...ready, observedGeneration: generation };
    const conditions = [...setReady(before?.conditions, observed, why, time)];
    const status = { ...before, observedGeneration: generation, conditions };
    if (!isDeepStrictEqual(before, status))
      await client.replaceStatus(POLICY_EXCEPTIONS, { ...exception, status }, { signal });
    return state.kind === 'in-force' ? { kind: 'requeue', at: new Date(spec.expiresAt) } : AWAIT_CHANGE;
  };
}

function readiness(state: GrantState, { spec }: PolicyException) {
  if (state.kind === 'in-force') {
    const message = `policy ${spec.policy} exempts the objects until ${spec.expiresAt}`;
    return { status: 'True', reason: 'InForce', message, why: undefined } as const;
  }
  const why: NotReady = state.reason === 'UnknownPolicy' ? 'Reconciling' : 'Stalled';
  return { status: 'False', reason: state.reason, message: state.message, why } as const;
}

export function startExceptionStatus(
  context: Context,
  registry: PolicyRegistry,
  exceptions: Watched<PolicyException>,
  onChange: (policy: string) => void,
  signal: AbortSignal,
) {
  const { client, serverClock } = context;
  const { store } = exceptions;
  const reconcile = createExceptionStatusReconciler(client, store, registry, serverClock.now, onChange);
  const options = { name: 'policy-exceptions', objects: exceptions, reconcile, serverNow: serverClock.now };
  const controller = startController(context, options, signal);
  registry.subscribe((name) => {
    for (const exception of store.list())
      if (exception.spec.policy === name) controller.add(keyOf(exception));
  }, signal);
  return controller;
}
