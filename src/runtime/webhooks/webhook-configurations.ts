/** On the leader: writes the two webhook configurations named `gatehouse`, as the policies in force require them. */
import { isDeepStrictEqual } from 'node:util';

import type { CompiledPolicy } from '../../admission/policy/compile.ts';
import { carries, isOfHandler, type LiveWebhookConfiguration } from '../../admission/webhooks/dev-entries.ts';
import { devSessionOf, withoutDevSession, type DevSession } from '../../admission/webhooks/dev-session.ts';
import type { CompiledHandler } from '../../admission/handlers/compile-handler.ts';
import {
  webhookConfigurations,
  WEBHOOK_CONFIGURATION_NAME,
} from '../../admission/webhooks/webhook-configurations.ts';
import { type WebhookConfiguration } from '../../admission/webhooks/webhook.ts';
import type { RestoreDetector } from '../../api/restore-detector.ts';
import type { Principal } from '../../api/principals.ts';
import type { KubeClient } from '../../kube/client.ts';
import type { Log } from '../../log.ts';
import type { Store } from '../../kube/store.ts';
import { mutatingWebhookConfigurations, validatingWebhookConfigurations } from '../../kube/well-known.ts';
import { isEnabled } from '../../restore/detector.ts';
import type { Certificates } from '../certificates/start-certificates.ts';
import type { Context } from '../context.ts';
import { requeueIn, startController, type Reconcile, type RunningController } from '../controller.ts';
import { watch } from '../watch.ts';
import type { Replica } from '../webhook-process.ts';

export const WEBHOOK_CONFIGURATIONS = {
  mutatingwebhookconfigurations: mutatingWebhookConfigurations,
  validatingwebhookconfigurations: validatingWebhookConfigurations,
} as const;

export type WebhookResource = keyof typeof WEBHOOK_CONFIGURATIONS;

export interface WebhookConfigurationsOptions {
  readonly client: Pick<KubeClient, 'get' | 'create' | 'replace'>;
  readonly policies: () => readonly CompiledPolicy[];
  readonly handlers: readonly CompiledHandler[];
  /** Base64 PEM; undefined until there is an authority. */
  readonly caBundle: () => string | undefined;
  readonly target: ReturnType<typeof configurationTarget>;
  readonly detectors: Pick<Store<RestoreDetector>, 'list'>;
  /** Called when both configurations in the API server carry these policies. */
  readonly onInstalled: (policies: readonly CompiledPolicy[]) => void;
  readonly now: () => Date;
  /** By the clock of the API server. */
  readonly serverNow: () => Date;
  readonly log: Log;
}

/** Without the configurations nothing is enforced, so the leader also reads them at this interval, in milliseconds. */
const RECHECK_MS = 60_000;
/** How soon to look for an authority that does not exist yet, in milliseconds. */
const NO_AUTHORITY_MS = 500;

export function createWebhookConfigurationsReconciler(options: WebhookConfigurationsOptions): Reconcile {
  const { handlers, target, detectors, onInstalled, now, serverNow } = options;
  return async (_key, signal) => {
    const caBundle = options.caBundle();
    if (caBundle === undefined) return requeueIn(NO_AUTHORITY_MS, now());
    const policies = options.policies();
    const wanted = { ...target, caBundle, restorers: restorersOf(detectors) };
    const { mutating, validating } = webhookConfigurations(policies, wanted, handlers);
    const states = [
      await ensure('mutatingwebhookconfigurations', mutating, options, signal),
      await ensure('validatingwebhookconfigurations', validating, options, signal),
    ];
    if (states.every((state) => state.kind === 'installed' || state.carriesPolicies)) onInstalled(policies);
    const expiries = states.flatMap((state) =>
      state.kind === 'lent' ? [state.session.expiresAt.getTime() - serverNow().getTime()] : [],
    );
    return requeueIn(Math.min(RECHECK_MS, ...expiries.map((ms) => Math.max(0, ms) + 100)), now());
  };
}

type Ensured =
  | { readonly kind: 'installed' }
  /** A development session writes the configuration until it expires. */
  | { readonly kind: 'lent'; readonly session: DevSession; readonly carriesPolicies: boolean };

async function ensure(
  resource: WebhookResource,
  desired: WebhookConfiguration,
  { client, serverNow, log }: WebhookConfigurationsOptions,
  signal: AbortSignal,
): Promise<Ensured> {
  const kind = WEBHOOK_CONFIGURATIONS[resource];
  const ref = { name: WEBHOOK_CONFIGURATION_NAME };
  const live = await client.get<LiveWebhookConfiguration>(kind, ref, { signal });
  if (live === undefined) {
    await client.create(kind, desired, { signal });
    log.info({ resource, webhooks: desired.webhooks.length }, 'created webhook configuration');
    return { kind: 'installed' };
  }
  const state = devSessionOf(live, serverNow());
  if (state.kind === 'valid') {
    const { session } = state;
    log.debug({ resource, session }, 'webhook configuration is lent to a developer');
    const policies = desired.webhooks.filter((webhook) => !isOfHandler(webhook));
    return { kind: 'lent', session, carriesPolicies: carries(live.webhooks ?? [], policies) };
  }
  const isAbandoned = state.kind === 'over';
  const metadata = isAbandoned ? withoutDevSession(live.metadata) : live.metadata;
  const labels = { ...metadata?.labels, ...desired.metadata?.labels };
  // The API server leaves out an empty list.
  const wanted = { webhooks: desired.webhooks, labels };
  const current = { webhooks: live.webhooks ?? [], labels: live.metadata?.labels ?? {} };
  if (!isAbandoned && isDeepStrictEqual(current, wanted)) return { kind: 'installed' };
  const next = { ...live, metadata: { ...metadata, labels }, webhooks: desired.webhooks };
  await client.replace<LiveWebhookConfiguration>(kind, next, { signal });
  const fields = { resource, webhooks: desired.webhooks.length };
  if (isAbandoned)
    log.warn({ ...fields, session: state.session }, 'took webhook configuration back from a developer');
  else log.info(fields, 'replaced webhook configuration');
  return { kind: 'installed' };
}

/** The Service that the entries of a cluster name, and the features that the API server supports. */
export function configurationTarget({ config, capabilities }: Pick<Context, 'config' | 'capabilities'>) {
  const { namespace, service, servicePort } = config;
  return {
    service: { namespace, name: service, port: servicePort },
    ownNamespace: namespace,
    matchConditions: capabilities.matchConditions,
    protectsOwnKinds: true,
  };
}

/** The principals of all enabled detectors. */
export const restorersOf = (detectors: Pick<Store<RestoreDetector>, 'list'>): readonly Principal[] =>
  detectors
    .list()
    .filter(isEnabled)
    .flatMap(({ spec }) => spec.principals);

export function startWebhookConfigurations(
  context: Context,
  { registry, handlers, detectors }: Replica,
  certificates: Certificates,
  onInstalled: WebhookConfigurationsOptions['onInstalled'],
  signal: AbortSignal,
): RunningController {
  const { client, serverClock, log } = context;
  const controller = startController(
    context,
    {
      name: 'webhook-configurations',
      reconcile: createWebhookConfigurationsReconciler({
        client,
        policies: registry.inForce,
        handlers: handlers.all,
        caBundle: () => {
          const bundle = certificates.bundle();
          return bundle === undefined ? undefined : Buffer.from(bundle).toString('base64');
        },
        target: configurationTarget(context),
        detectors: detectors.store,
        onInstalled,
        now: () => new Date(),
        serverNow: serverClock.now,
        log,
      }),
    },
    signal,
  );
  const install = () => {
    controller.add(WEBHOOK_CONFIGURATION_NAME);
  };
  registry.subscribe(install, signal);
  certificates.onAuthority(install);
  detectors.onChange(install, signal);
  // Reverts changes that other clients make to these configurations.
  const fieldSelector = `metadata.name=${WEBHOOK_CONFIGURATION_NAME}`;
  for (const resource of Object.values(WEBHOOK_CONFIGURATIONS))
    watch(context, { resource, fieldSelector, onChange: install }, signal);
  install();
  return controller;
}
