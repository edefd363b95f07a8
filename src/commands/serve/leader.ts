/** What only the leader runs: everything that writes. Its client refuses to write once the lease may have run out. */
import type { CompiledPolicy } from '../../admission/compile.ts';
import { WEBHOOK_CONFIGURATION_NAME } from '../../admission/webhook-configurations.ts';
import { createPolicyStatusReconciler } from '../../controllers/policy-status.ts';
import {
  createWebhookConfigurationsReconciler,
  type LiveWebhookConfiguration,
} from '../../controllers/webhook-configurations.ts';
import { setCondition } from '../../kube/conditions.ts';
import { createEventRecorder } from '../../kube/events.ts';
import { fenced } from '../../kube/fence.ts';
import { keyOf, type Resource } from '../../kube/object.ts';
import { mutatingWebhookConfigurations, validatingWebhookConfigurations } from '../../kube/well-known.ts';
import { startCertificates, type Certificates } from './certificates.ts';
import type { Context } from './context.ts';
import { startController } from './controller.ts';
import type { ReplicaParts } from './replica.ts';
import { ADMISSION_POLICIES } from './resources.ts';
import { startRestores } from './restores.ts';
import { watch } from './watch.ts';

const CONFIGURATIONS = {
  mutatingwebhookconfigurations: mutatingWebhookConfigurations,
  validatingwebhookconfigurations: validatingWebhookConfigurations,
} as const;

/** Runs until the signal aborts and the last reconcile has ended. */
export async function lead(
  context: Context,
  replica: ReplicaParts,
  isLeader: () => boolean,
  signal: AbortSignal,
): Promise<void> {
  const leading = { ...context, client: fenced(context.client, isLeader) };
  const recorder = createEventRecorder({
    client: leading.client,
    component: 'gatehouse',
    instance: context.identity,
    log: context.log,
    signal, // what still waits then would keep the process from ending, for minutes after a large rotation
  });

  const certificates = startCertificates(leading, recorder.record, signal);
  const governing = async () => {
    // What the replica has not judged yet must not be taken out of the webhook configurations.
    await whenJudged(replica, signal);
    await replica.windows.whenSynced(signal);
    const policies = startPolicies(leading, replica, certificates, signal);
    const restores = startRestores(leading, replica, recorder.record, signal);
    await Promise.all([policies.stopped, restores.stopped]);
  };
  await Promise.all([certificates.stopped, untilAborted(governing(), signal)]);
}

/** A wait that ends because we no longer lead is no failure. */
async function untilAborted(work: Promise<void>, signal: AbortSignal): Promise<void> {
  try {
    await work;
  } catch (error) {
    if (!signal.aborted) throw error;
  }
}

async function whenJudged({ policies, checks, registry }: ReplicaParts, signal: AbortSignal): Promise<void> {
  await policies.whenSynced(signal);
  const { promise, resolve, reject } = Promise.withResolvers<undefined>();
  const look = () => {
    if (checks.policies() === undefined) resolve(undefined);
  };
  registry.subscribe(look, signal);
  signal.addEventListener('abort', () => {
    reject(signal.reason instanceof Error ? signal.reason : new Error('no longer leading'));
  });
  look();
  await promise;
}

function startPolicies(
  context: Context,
  { registry, policies, onPolicyChange }: ReplicaParts,
  certificates: Certificates,
  signal: AbortSignal,
): { readonly stopped: Promise<unknown> } {
  const { client, config, capabilities, log } = context;
  const installed = new Map<string, number>();

  const status = startController(
    context,
    {
      name: 'policy-status',
      reconcile: createPolicyStatusReconciler({
        policy: (name) => policies.store.get(name),
        state: registry.get,
        installed: (name) => installed.get(name),
        setCondition,
        writeStatus: (policy, next, waiting) =>
          client.replaceStatus(ADMISSION_POLICIES, { ...policy, status: next }, { signal: waiting }),
        now: () => new Date(),
      }),
    },
    signal,
  );
  const onInstalled = (inForce: readonly CompiledPolicy[]) => {
    installed.clear();
    for (const { name, generation } of inForce) {
      installed.set(name, generation);
      status.add(name);
    }
  };

  const { namespace, service, servicePort } = config;
  const configurations = startController(
    context,
    {
      name: 'webhook-configurations',
      reconcile: createWebhookConfigurationsReconciler({
        policies: registry.inForce,
        caBundle: () => {
          const bundle = certificates.bundle();
          return bundle === undefined ? undefined : Buffer.from(bundle).toString('base64');
        },
        target: {
          service: { namespace, name: service, port: servicePort },
          ownNamespace: namespace,
          matchConditions: capabilities.matchConditions,
        },
        read: (resource, waiting) =>
          client.get<LiveWebhookConfiguration>(
            CONFIGURATIONS[resource],
            { name: WEBHOOK_CONFIGURATION_NAME },
            { signal: waiting },
          ),
        create: (resource, object, waiting) =>
          client.create(CONFIGURATIONS[resource], object, { signal: waiting }),
        replace: (resource, object, waiting) =>
          client.replace(CONFIGURATIONS[resource], object, { signal: waiting }),
        onInstalled,
        now: () => new Date(),
        log,
      }),
    },
    signal,
  );
  const install = () => {
    configurations.add(WEBHOOK_CONFIGURATION_NAME);
  };
  registry.subscribe((name) => {
    status.add(name);
    install();
  }, signal);
  onPolicyChange(status.add, signal);
  certificates.onAuthority(install);
  for (const resource of Object.values(CONFIGURATIONS)) watchOwn(context, resource, install, signal);
  for (const policy of policies.store.list()) status.add(keyOf(policy));
  install();
  return { stopped: Promise.all([status.stopped, configurations.stopped]) };
}

/** Someone else's change to our own configurations is undone. */
function watchOwn(context: Context, resource: Resource, onChange: () => void, signal: AbortSignal): void {
  const fieldSelector = `metadata.name=${WEBHOOK_CONFIGURATION_NAME}`;
  watch(context, { resource, fieldSelector, onChange }, signal);
}
