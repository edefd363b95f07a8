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
import { ownedBy } from '../../admission/webhooks/installation-owner.ts';
import type { RestoreDetector } from '../../api/restore-detector.ts';
import type { OwnerReference } from '../../json/kube-object.ts';
import type { KubeClient } from '../../kube/client.ts';
import type { Log } from '../../log.ts';
import type { Resource } from '../../kube/object.ts';
import type { Store } from '../../kube/store.ts';
import { validatingAdmissionPolicies, validatingAdmissionPolicyBindings } from '../../kube/well-known.ts';
import type { Context } from '../context.ts';
import { requeueIn, startController, type Reconcile } from '../controller.ts';
import type { Installation } from './installation.ts';
import { restorersOf } from './restorers.ts';
import type { RestoreKinds } from '../restores/restore-kinds.ts';

type Part = keyof OwnKindsPolicy;
type PartObject = OwnKindsPolicy[Part];

const RESOURCES: Readonly<Record<Part, Resource>> = {
  policy: validatingAdmissionPolicies,
  binding: validatingAdmissionPolicyBindings,
};

/** No watch reports changes by other clients: the leader reverts them within this time, in milliseconds. */
const RECHECK_MS = 60_000;
/** The same while the garbage collector may delete them. */
const CHANGING_MS = 1_000;

interface ProtectOwnKindsOptions {
  readonly client: Pick<KubeClient, 'get' | 'create' | 'replace' | 'delete'>;
  readonly detectors: Pick<Store<RestoreDetector>, 'list'>;
  readonly installation: Pick<Installation, 'owner' | 'obstacle' | 'withOwner' | 'isChanging'>;
  readonly now: () => Date;
  readonly log: Log;
}

export function createProtectOwnKindsReconciler(options: ProtectOwnKindsOptions): Reconcile {
  const { client, detectors, installation, now, log } = options;
  const ensure = async (
    part: Part,
    desired: PartObject,
    owner: OwnerReference | undefined,
    signal: AbortSignal,
  ) => {
    const kind = RESOURCES[part];
    const name = OWN_KINDS_POLICY_NAME;
    const live = await client.get<PartObject>(kind, { name }, { signal });
    if (live === undefined) {
      const reason = await installation.obstacle(signal);
      if (reason !== undefined) {
        log.debug({ part, name, reason }, 'the policy that protects our own kinds is not created');
        return;
      }
      await client.create(kind, ownedBy(desired, owner), { signal });
      log.info({ part, name }, 'created the policy that protects our own kinds from restorers');
      return;
    }
    await installation.withOwner(owner, async (by) => {
      const next = ownedBy({ ...live, spec: desired.spec }, by);
      if (isDeepStrictEqual(live, next)) return;
      await client.replace(kind, next, { signal });
      log.info({ part, name }, 'replaced the policy that protects our own kinds from restorers');
    });
  };
  const remove = async (part: Part, signal: AbortSignal): Promise<void> => {
    const ref = { name: OWN_KINDS_POLICY_NAME };
    const live = await client.get<PartObject>(RESOURCES[part], ref, { signal });
    if (live === undefined) return;
    const { uid, resourceVersion } = live.metadata ?? {};
    await client.delete(RESOURCES[part], ref, { preconditions: { uid, resourceVersion }, signal });
  };
  return async (_key, signal) => {
    const restorers = restorersOf(detectors);
    const owner = await installation.owner(signal);
    const desired = restorers.length === 0 ? undefined : ownKindsPolicy(restorers);
    for (const part of ['policy', 'binding'] as const) {
      if (desired === undefined) await remove(part, signal);
      else await ensure(part, desired[part], owner, signal);
    }
    return requeueIn(installation.isChanging() ? CHANGING_MS : RECHECK_MS, now());
  };
}

export function startProtectOwnKinds(
  context: Context,
  detectors: RestoreKinds['detectors'],
  installation: Installation,
  signal: AbortSignal,
): { readonly stopped: Promise<void> } {
  const { client, config, serverClock, log } = context;
  if (config.without.includes('restores')) return { stopped: Promise.resolve() };
  const { now } = serverClock;
  const reconcile = createProtectOwnKindsReconciler({
    ...{ client, detectors: detectors.store, installation, now, log },
  });
  const on = [detectors.onChange, installation.onChange];
  return startController(
    context,
    { name: 'guard-policy', key: OWN_KINDS_POLICY_NAME, on, reconcile },
    signal,
  );
}
