/** Leader: what becomes of AdmissionPolicies in the cluster: webhook configurations, status, audit. */
import type { CompiledPolicy } from '../../admission/policy/compile.ts';
import { WEBHOOK_CONFIGURATION_NAME } from '../../admission/webhooks/webhook-configurations.ts';
import { createPolicyStatusReconciler } from './policy-status.ts';
import { type RecordEvent, startController, type RunningController } from '../controller.ts';
import {
  createWebhookConfigurationsReconciler,
  configurationAccess,
  configurationTarget,
  restorersOf,
  WEBHOOK_CONFIGURATIONS,
} from '../webhooks/webhook-configurations.ts';
import { setCondition } from '../../kube/conditions.ts';
import { keyOf } from '../../json/kube-object.ts';
import type { Resource } from '../../kube/object.ts';
import type { Certificates } from '../certificates/start-certificates.ts';
import type { Context } from '../context.ts';
import { startPolicyAudit, type PolicyAudit } from './policy-audit.ts';
import type { ReplicaParts } from '../webhook-process.ts';
import { ADMISSION_POLICIES } from '../resources.ts';
import { watch } from '../watch.ts';

export function startPolicies(
  context: Context,
  replica: ReplicaParts,
  certificates: Certificates,
  record: RecordEvent,
  signal: AbortSignal,
): { readonly stopped: Promise<unknown> } {
  const { registry, policies, onPolicyChange, onDetectorChange } = replica;
  const installed = new Map<string, number>();
  const audit = startPolicyAudit(
    context,
    replica,
    record,
    (name) => {
      status.add(name);
    },
    signal,
  );
  const status = startStatus(context, replica, (name) => installed.get(name), audit.result, signal);
  const onInstalled = (inForce: readonly CompiledPolicy[]) => {
    installed.clear();
    for (const { name, generation } of inForce) {
      installed.set(name, generation);
      status.add(name);
    }
  };
  const configurations = startConfigurations(context, replica, certificates, onInstalled, signal);
  const install = () => {
    configurations.add(WEBHOOK_CONFIGURATION_NAME);
  };
  registry.subscribe((name) => {
    status.add(name);
    install();
  }, signal);
  onPolicyChange(status.add, signal);
  certificates.onAuthority(install);
  onDetectorChange(install, signal);
  for (const resource of Object.values(WEBHOOK_CONFIGURATIONS)) watchOwn(context, resource, install, signal);
  for (const policy of policies.store.list()) status.add(keyOf(policy));
  install();
  return { stopped: Promise.all([status.stopped, configurations.stopped, audit.stopped]) };
}

function startStatus(
  context: Context,
  { registry, policies }: ReplicaParts,
  installed: (name: string) => number | undefined,
  violations: PolicyAudit['result'],
  signal: AbortSignal,
): RunningController {
  const { client } = context;
  return startController(
    context,
    {
      name: 'policy-status',
      reconcile: createPolicyStatusReconciler({
        policy: (name) => policies.store.get(name),
        state: registry.get,
        installed,
        violations,
        setCondition,
        writeStatus: (policy, next, waiting) =>
          client.replaceStatus(ADMISSION_POLICIES, { ...policy, status: next }, { signal: waiting }),
        now: () => new Date(),
      }),
    },
    signal,
  );
}

function startConfigurations(
  context: Context,
  { registry, handlers, detectors }: ReplicaParts,
  certificates: Certificates,
  onInstalled: (inForce: readonly CompiledPolicy[]) => void,
  signal: AbortSignal,
): RunningController {
  const { serverClock, log } = context;
  return startController(
    context,
    {
      name: 'webhook-configurations',
      reconcile: createWebhookConfigurationsReconciler({
        policies: registry.inForce,
        handlers: handlers.all,
        caBundle: () => {
          const bundle = certificates.bundle();
          return bundle === undefined ? undefined : Buffer.from(bundle).toString('base64');
        },
        target: configurationTarget(context),
        restorers: () => restorersOf(detectors),
        ...configurationAccess(context),
        onInstalled,
        now: () => new Date(),
        serverNow: serverClock.now,
        log,
      }),
    },
    signal,
  );
}

/** Someone else's change to our own configurations is undone. */
function watchOwn(context: Context, resource: Resource, onChange: () => void, signal: AbortSignal): void {
  const fieldSelector = `metadata.name=${WEBHOOK_CONFIGURATION_NAME}`;
  watch(context, { resource, fieldSelector, onChange }, signal);
}
