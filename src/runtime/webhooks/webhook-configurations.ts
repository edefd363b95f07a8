/** On the leader: the two webhook configurations named `gatehouse` are what the policies in force make them. */
import { isDeepStrictEqual } from 'node:util';
import type { CompiledPolicy } from '../../admission/policy/compile.ts';
import { carries, isOfHandler, type LentConfiguration } from '../../admission/webhooks/dev-entries.ts';
import { devSessionOf, withoutDevSession, type DevSession } from '../../admission/webhooks/dev-session.ts';
import type { CompiledHandler } from '../../admission/handlers/compile-handler.ts';
import {
  webhookConfigurations,
  type WebhookConfiguration,
  WEBHOOK_CONFIGURATION_NAME,
} from '../../admission/webhooks/webhook-configurations.ts';
import type { KubeObject } from '../../json/kube-object.ts';
import type { Principal } from '../../api/restore-principal.ts';
import type { Log } from '../../log.ts';
import { requeueIn, type Reconcile } from '../controller.ts';
import type { DevSessionDeps } from './dev-session.ts';
import { mutatingWebhookConfigurations, validatingWebhookConfigurations } from '../../kube/well-known.ts';
import { isEnabled } from '../../restore/detector.ts';
import type { Context } from '../context.ts';
import type { ReplicaParts } from '../webhook-process.ts';

export type WebhookResource = 'mutatingwebhookconfigurations' | 'validatingwebhookconfigurations';

/** The API server leaves an empty list out, and entries may lead anywhere. */
export type LiveWebhookConfiguration = LentConfiguration;

export interface WebhookConfigurationsDeps {
  readonly policies: () => readonly CompiledPolicy[];
  /** Those of this process: they stay the same for as long as it runs. */
  readonly handlers: readonly CompiledHandler[];
  /** Base64 PEM; undefined until there is an authority. */
  readonly caBundle: () => string | undefined;
  readonly target: {
    readonly service: { readonly namespace: string; readonly name: string; readonly port: number };
    readonly ownNamespace: string;
    readonly matchConditions: boolean;
    readonly guardsOwnKinds?: boolean;
  };
  /** Whoever a detector names. */
  readonly restorers?: () => readonly Principal[];
  readonly read: (
    resource: WebhookResource,
    signal: AbortSignal,
  ) => Promise<LiveWebhookConfiguration | undefined>;
  readonly create: (
    resource: WebhookResource,
    object: WebhookConfiguration,
    signal: AbortSignal,
  ) => Promise<unknown>;
  /** Writes `object` if it still has the resourceVersion in its metadata. */
  readonly replace: (
    resource: WebhookResource,
    object: LiveWebhookConfiguration,
    signal: AbortSignal,
  ) => Promise<unknown>;
  /** Both configurations in the API server carry these policies. */
  readonly onInstalled: (policies: readonly CompiledPolicy[]) => void;
  readonly now: () => Date;
  /** By the clock of the API server. */
  readonly serverNow: () => Date;
  readonly log: Log;
}

/** A watch tells when someone changes them; without them nothing is enforced, so they are read all the same. In milliseconds. */
const RECHECK_MS = 60_000;

export function createWebhookConfigurationsReconciler(deps: WebhookConfigurationsDeps): Reconcile {
  return async (_key, signal) => {
    const caBundle = deps.caBundle();
    if (caBundle === undefined) return requeueIn(500, deps.now());
    const policies = deps.policies();
    const { mutating, validating } = webhookConfigurations(
      policies,
      { ...deps.target, caBundle, restorers: deps.restorers?.() ?? [] },
      deps.handlers,
    );
    const states = [
      await ensure('mutatingwebhookconfigurations', mutating, deps, signal),
      await ensure('validatingwebhookconfigurations', validating, deps, signal),
    ];
    if (states.every((state) => state.kind === 'installed' || state.carriesPolicies))
      deps.onInstalled(policies);
    const lent = states.flatMap((state) => (state.kind === 'lent' ? [state.session] : []));
    return requeueIn(Math.min(RECHECK_MS, ...lent.map((session) => leftOf(session, deps))), deps.now());
  };
}

type Ensured =
  | { readonly kind: 'installed' }
  /** To a laptop, which writes them while its session lasts. */
  | { readonly kind: 'lent'; readonly session: DevSession; readonly carriesPolicies: boolean };

/** Until a session is over, if nobody renews it; in milliseconds. */
const leftOf = ({ expiresAt }: DevSession, { serverNow }: Pick<WebhookConfigurationsDeps, 'serverNow'>) =>
  Math.max(0, expiresAt.getTime() - serverNow().getTime()) + 100;

async function ensure(
  resource: WebhookResource,
  desired: WebhookConfiguration,
  { read, create, replace, serverNow, log }: WebhookConfigurationsDeps,
  signal: AbortSignal,
): Promise<Ensured> {
  const live = await read(resource, signal);
  if (live === undefined) {
    await create(resource, desired, signal);
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
  const isNoted = state.kind === 'over';
  if (!isNoted && isDeepStrictEqual(live.webhooks ?? [], desired.webhooks) && hasLabels(live, desired))
    return { kind: 'installed' };
  const metadata = isNoted ? withoutDevSession(live.metadata) : live.metadata;
  const labels = { ...metadata?.labels, ...desired.metadata?.labels };
  await replace(resource, { ...live, metadata: { ...metadata, labels }, webhooks: desired.webhooks }, signal);
  const fields = { resource, webhooks: desired.webhooks.length };
  if (isNoted)
    log.warn({ ...fields, session: state.session }, 'took webhook configuration back from a developer');
  else log.info(fields, 'replaced webhook configuration');
  return { kind: 'installed' };
}

function hasLabels(live: KubeObject, desired: KubeObject): boolean {
  return Object.entries(desired.metadata?.labels ?? {}).every(
    ([key, value]) => live.metadata?.labels?.[key] === value,
  );
}

/** The two webhook configurations of Gatehouse: what goes into them, and how they are read and written. */
export const WEBHOOK_CONFIGURATIONS = {
  mutatingwebhookconfigurations: mutatingWebhookConfigurations,
  validatingwebhookconfigurations: validatingWebhookConfigurations,
} as const;

/** Where the entries lead in a cluster, and what they may ask for there. */
export function configurationTarget({
  config,
  capabilities,
}: Pick<Context, 'config' | 'capabilities'>): WebhookConfigurationsDeps['target'] {
  const { namespace, service, servicePort } = config;
  return {
    service: { namespace, name: service, port: servicePort },
    ownNamespace: namespace,
    matchConditions: capabilities.matchConditions,
    guardsOwnKinds: true,
  };
}

/** Those whom enabled detectors name. */
export const restorersOf = ({ store }: ReplicaParts['detectors']) =>
  store
    .list()
    .filter(isEnabled)
    .flatMap(({ spec }) => spec.principals);

export function configurationAccess({
  client,
}: Pick<Context, 'client'>): Pick<DevSessionDeps, 'read' | 'create' | 'replace'> {
  return {
    read: (resource, signal) =>
      client.get<LiveWebhookConfiguration>(
        WEBHOOK_CONFIGURATIONS[resource],
        { name: WEBHOOK_CONFIGURATION_NAME },
        { signal },
      ),
    create: (resource, object, signal) => client.create(WEBHOOK_CONFIGURATIONS[resource], object, { signal }),
    replace: (resource, object, signal) =>
      client.replace(WEBHOOK_CONFIGURATIONS[resource], object, { signal }),
  };
}
