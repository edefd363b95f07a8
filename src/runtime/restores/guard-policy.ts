/** On the leader: the ValidatingAdmissionPolicy that keeps restorers from our own kinds, where the API server knows such. */
import { isDeepStrictEqual } from 'node:util';

import {
  guardPolicy,
  GUARD_POLICY_NAME,
  type GuardPolicy,
} from '../../admission/webhooks/protect-own-kinds.ts';
import type { KubeObject } from '../../api/meta.ts';
import type { Principal } from '../../api/restore-principal.ts';
import { AWAIT_CHANGE, requeueIn, type Log, type Reconcile } from '../reconcile.ts';

/** `policy`: the ValidatingAdmissionPolicy; `binding`: its ValidatingAdmissionPolicyBinding. */
export type GuardPart = keyof GuardPolicy;
type GuardObject = GuardPolicy[GuardPart];

export interface GuardPolicyDeps {
  readonly isServed: (signal: AbortSignal) => Promise<boolean>;
  /** Whoever a detector names. */
  readonly restorers: () => readonly Principal[];
  readonly read: (part: GuardPart, name: string, signal: AbortSignal) => Promise<KubeObject | undefined>;
  readonly create: (part: GuardPart, object: GuardObject, signal: AbortSignal) => Promise<unknown>;
  /** Writes `object` if it still has the resourceVersion in its metadata. */
  readonly replace: (part: GuardPart, object: GuardObject, signal: AbortSignal) => Promise<unknown>;
  readonly remove: (part: GuardPart, object: KubeObject, signal: AbortSignal) => Promise<unknown>;
  readonly now: () => Date;
  readonly log: Log;
}

/** Nobody watches them: somebody else's change is undone within this time, in milliseconds. */
const LOOK_AGAIN_MS = 60_000;

export function createGuardPolicyReconciler(deps: GuardPolicyDeps): Reconcile {
  return async (_key, signal) => {
    if (!(await deps.isServed(signal))) return AWAIT_CHANGE;
    const restorers = deps.restorers();
    const desired = restorers.length === 0 ? undefined : guardPolicy(restorers);
    for (const part of ['policy', 'binding'] as const) await ensure(part, desired?.[part], deps, signal);
    return requeueIn(LOOK_AGAIN_MS, deps.now());
  };
}

async function ensure(
  part: GuardPart,
  desired: GuardObject | undefined,
  { read, create, replace, remove, log }: GuardPolicyDeps,
  signal: AbortSignal,
): Promise<void> {
  const live = await read(part, GUARD_POLICY_NAME, signal);
  if (desired === undefined) {
    if (live !== undefined) await remove(part, live, signal);
    return;
  }
  if (live === undefined) {
    await create(part, desired, signal);
    log.info({ part, name: GUARD_POLICY_NAME }, 'created what keeps restorers from our own kinds');
    return;
  }
  const { spec } = live as Partial<GuardObject>; // of the kind that was asked for
  if (isDeepStrictEqual(spec, desired.spec)) return;
  await replace(part, { ...live, spec: desired.spec }, signal);
  log.info({ part, name: GUARD_POLICY_NAME }, 'replaced what keeps restorers from our own kinds');
}
