/** On the leader: the ValidatingAdmissionPolicy that keeps restorers from our own kinds, where the API server knows such. */
import { isDeepStrictEqual } from 'node:util';
import {
  guardPolicy,
  GUARD_POLICY_NAME,
  type GuardPolicy,
} from '../../admission/webhooks/protect-own-kinds.ts';
import type { KubeObject } from '../../json/kube-object.ts';
import type { Principal } from '../../api/restore-principal.ts';
import type { Log } from '../../log.ts';
import { AWAIT_CHANGE, requeueIn, type Reconcile, startController } from '../controller.ts';
import type { KubeClient } from '../../kube/client.ts';
import type { Resource } from '../../kube/object.ts';
import { validatingAdmissionPolicies, validatingAdmissionPolicyBindings } from '../../kube/well-known.ts';
import { isEnabled } from '../../restore/detector.ts';
import type { Context } from '../context.ts';
import type { ReplicaParts } from '../webhook-process.ts';

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

/** Leader: what keeps restorers from our own kinds while no replica is there. */
const RESOURCES: Readonly<Record<GuardPart, Resource>> = {
  policy: validatingAdmissionPolicies,
  binding: validatingAdmissionPolicyBindings,
};

export function startGuardPolicy(
  context: Context & { readonly client: KubeClient },
  { detectors, onDetectorChange }: ReplicaParts,
  signal: AbortSignal,
): { readonly stopped: Promise<void> } {
  const { client, discovery, serverClock, log } = context;
  const controller = startController(
    context,
    {
      name: 'guard-policy',
      reconcile: createGuardPolicyReconciler({
        isServed: async (waiting) => {
          const served = await discovery.resolve(validatingAdmissionPolicies, waiting);
          return served?.version === validatingAdmissionPolicies.version;
        },
        restorers: () =>
          detectors.store
            .list()
            .filter(isEnabled)
            .flatMap(({ spec }) => spec.principals),
        read: (part, name, waiting) =>
          client.get<KubeObject & { readonly metadata: object }>(
            RESOURCES[part],
            { name },
            { signal: waiting },
          ),
        create: (part, object, waiting) =>
          client.create(RESOURCES[part], withMetadata(object), { signal: waiting }),
        replace: (part, object, waiting) =>
          client.replace(RESOURCES[part], withMetadata(object), { signal: waiting }),
        remove: (part, { metadata = {} }, waiting) => {
          const { name = '', uid, resourceVersion } = metadata;
          return client.delete(
            RESOURCES[part],
            { name },
            { signal: waiting, preconditions: { uid, resourceVersion } },
          );
        },
        now: () => serverClock.now(),
        log,
      }),
    },
    signal,
  );
  const look = () => {
    controller.add('gatehouse-restorers');
  };
  onDetectorChange(look, signal);
  look();
  return { stopped: controller.stopped };
}

const withMetadata = <T extends KubeObject>(object: T) => ({
  ...object,
  metadata: { ...object.metadata },
});
