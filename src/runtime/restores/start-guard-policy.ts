/** Leader: what keeps restorers from our own kinds while no replica is there. */
import type { KubeObject } from '../../api/meta.ts';
import { createGuardPolicyReconciler, type GuardPart } from './guard-policy.ts';
import type { KubeClient } from '../../kube/client.ts';
import type { Resource } from '../../kube/object.ts';
import { validatingAdmissionPolicies, validatingAdmissionPolicyBindings } from '../../kube/well-known.ts';
import { isEnabled } from '../../restore/detector.ts';
import type { Context } from '../context.ts';
import { startController } from '../controller.ts';
import type { ReplicaParts } from '../webhook-process.ts';

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
