/**
 * On the leader: writes the ValidatingAdmissionPolicy that keeps restorers from writing Gatehouse's own kinds. It applies
 * even while no replica runs.
 */
import { isDeepStrictEqual } from 'node:util';

import {
  ownKindsPolicy,
  OWN_KINDS_POLICY_NAME,
  type OwnKindsPolicy,
} from '../../admission/webhooks/protect-own-kinds.ts';
import type { RestoreDetector } from '../../api/restore-detector.ts';
import type { KubeClient } from '../../kube/client.ts';
import type { Log } from '../../log.ts';
import type { Resource } from '../../kube/object.ts';
import type { Store } from '../../kube/store.ts';
import { validatingAdmissionPolicies, validatingAdmissionPolicyBindings } from '../../kube/well-known.ts';
import type { Context } from '../context.ts';
import { requeueIn, startController, type Reconcile } from '../controller.ts';
import type { Replica } from '../webhook-process.ts';
import { restorersOf } from './restorers.ts';

type Part = keyof OwnKindsPolicy;
type PartObject = OwnKindsPolicy[Part];

const RESOURCES: Readonly<Record<Part, Resource>> = {
  policy: validatingAdmissionPolicies,
  binding: validatingAdmissionPolicyBindings,
};

/** No watch reports changes by other clients: the leader reverts them within this time, in milliseconds. */
const RECHECK_MS = 60_000;

export function createProtectOwnKindsReconciler(
  client: Pick<KubeClient, 'get' | 'create' | 'replace' | 'delete'>,
  detectors: Pick<Store<RestoreDetector>, 'list'>,
  now: () => Date,
  log: Log,
): Reconcile {
  const ensure = async (part: Part, desired: PartObject | undefined, signal: AbortSignal): Promise<void> => {
    const kind = RESOURCES[part];
    const name = OWN_KINDS_POLICY_NAME;
    const live = await client.get<PartObject>(kind, { name }, { signal });
    if (desired === undefined) {
      if (live === undefined) return;
      const { uid, resourceVersion } = live.metadata ?? {};
      await client.delete(kind, { name }, { preconditions: { uid, resourceVersion }, signal });
    } else if (live === undefined) {
      await client.create(kind, desired, { signal });
      log.info({ part, name }, 'created the policy that protects our own kinds from restorers');
    } else if (!isDeepStrictEqual(live.spec, desired.spec)) {
      await client.replace(kind, { ...live, spec: desired.spec }, { signal });
      log.info({ part, name }, 'replaced the policy that protects our own kinds from restorers');
    }
  };
  return async (_key, signal) => {
    const restorers = restorersOf(detectors);
    const desired = restorers.length === 0 ? undefined : ownKindsPolicy(restorers);
    for (const part of ['policy', 'binding'] as const) await ensure(part, desired?.[part], signal);
    return requeueIn(RECHECK_MS, now());
  };
}

export function startProtectOwnKinds(
  context: Context,
  { detectors }: Replica,
  signal: AbortSignal,
): { readonly stopped: Promise<void> } {
  const { client, config, serverClock, log } = context;
  if (config.without.includes('restores')) return { stopped: Promise.resolve() };
  const controller = startController(
    context,
    {
      name: 'guard-policy',
      reconcile: createProtectOwnKindsReconciler(client, detectors.store, serverClock.now, log),
    },
    signal,
  );
  const recheck = () => controller.add(OWN_KINDS_POLICY_NAME);
  detectors.onChange(recheck, signal);
  recheck();
  return { stopped: controller.stopped };
}
