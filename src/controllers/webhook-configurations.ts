/** On the leader: the two webhook configurations named `gatehouse` are what the policies in force make them. */
import { isDeepStrictEqual } from 'node:util';

import type { CompiledPolicy } from '../admission/compile.ts';
import type { CompiledHandler } from '../admission/handlers/compile-handler.ts';
import { webhookConfigurations, type WebhookConfiguration } from '../admission/webhook-configurations.ts';
import type { KubernetesObject } from '../api/meta.ts';
import type { Principal } from '../api/restore-principal.ts';
import { requeueIn, type Log, type Reconcile } from './reconcile.ts';

export type WebhookResource = 'mutatingwebhookconfigurations' | 'validatingwebhookconfigurations';

/** The API server leaves an empty list out. */
export type LiveWebhookConfiguration = Omit<WebhookConfiguration, 'webhooks'> &
  Partial<Pick<WebhookConfiguration, 'webhooks'>>;

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
    object: WebhookConfiguration,
    signal: AbortSignal,
  ) => Promise<unknown>;
  /** Both configurations in the API server carry these policies. */
  readonly onInstalled: (policies: readonly CompiledPolicy[]) => void;
  readonly now: () => Date;
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
    await ensure('mutatingwebhookconfigurations', mutating, deps, signal);
    await ensure('validatingwebhookconfigurations', validating, deps, signal);
    deps.onInstalled(policies);
    return requeueIn(RECHECK_MS, deps.now());
  };
}

async function ensure(
  resource: WebhookResource,
  desired: WebhookConfiguration,
  { read, create, replace, log }: WebhookConfigurationsDeps,
  signal: AbortSignal,
): Promise<void> {
  const live = await read(resource, signal);
  if (live === undefined) {
    await create(resource, desired, signal);
    log.info({ resource, webhooks: desired.webhooks.length }, 'created webhook configuration');
    return;
  }
  if (isDeepStrictEqual(live.webhooks ?? [], desired.webhooks) && hasLabels(live, desired)) return;
  const labels = { ...live.metadata?.labels, ...desired.metadata?.labels };
  await replace(
    resource,
    { ...live, metadata: { ...live.metadata, labels }, webhooks: desired.webhooks },
    signal,
  );
  log.info({ resource, webhooks: desired.webhooks.length }, 'replaced webhook configuration');
}

function hasLabels(live: KubernetesObject, desired: KubernetesObject): boolean {
  return Object.entries(desired.metadata?.labels ?? {}).every(
    ([key, value]) => live.metadata?.labels?.[key] === value,
  );
}
