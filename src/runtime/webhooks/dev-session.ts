/** On a developer's machine: points the webhook entries at this process, and at the Service again when the session ends. */
import {
  planRelease,
  planAcquire,
  servedWebhooks,
  devSessionOf,
  type DevTarget,
  type LiveWebhookConfiguration,
  type LiveWebhook,
  type DevSession,
} from '../../admission/webhooks/dev-entries.ts';
import { WEBHOOK_CONFIGURATION_NAME } from '../../admission/webhooks/webhook-configurations.ts';
import type { WebhookConfiguration } from '../../admission/webhooks/webhook.ts';
import { isConflict } from '../../kube/api-error.ts';
import type { KubeClient } from '../../kube/client.ts';
import type { Log } from '../../log.ts';
import { requeueIn, type ReconcileResult } from '../controller.ts';
import { WEBHOOK_CONFIGURATIONS, type WebhookResource } from './installed-webhooks.ts';

export interface DevSessionOptions {
  readonly client: Pick<KubeClient, 'get' | 'create' | 'replace' | 'delete'>;
  readonly own: Pick<DevSession, 'id' | 'holder' | 'url' | 'controllers'>;
  readonly caBundle: string;
  /** The CA bundle of the cluster, read live; base64 of PEM. Undefined when it is missing or unreadable. */
  readonly serviceBundle: (signal: AbortSignal) => Promise<string | undefined>;
  readonly desired: (
    serviceBundle: string | undefined,
  ) => Readonly<Record<WebhookResource, WebhookConfiguration>>;
  readonly now: () => Date;
  readonly serverNow: () => Date;
  readonly log: Log;
}

/** Another client writes the same entries. Continuing would only alternate with it, so the session ends. */
export class DevSessionRefused extends Error {
  override readonly name = 'DevSessionRefused';
}

export type RunningDevSession = ReturnType<typeof createDevSession>;
const REF = { name: WEBHOOK_CONFIGURATION_NAME };
const RESOURCES = ['mutatingwebhookconfigurations', 'validatingwebhookconfigurations'] as const;

/** The session annotation expires after 60 s, so two renewals may fail before it does. In milliseconds. */
const RENEW_MS = 20_000;
/** Attempts per write: other clients, such as a leader that renews a bundle, may change the object in between. */
const MOST_CONFLICTS = 10;
const MOST_REVERTS = 3;

interface Taken {
  readonly before: readonly LiveWebhook[];
  readonly first: WebhookConfiguration['webhooks'];
  readonly reverts: number;
}

export function createDevSession(options: DevSessionOptions) {
  const taken = new Map<WebhookResource, Taken>();

  /** @throws DevSessionRefused when another session holds the entries, or another client keeps reverting them */
  const take = async (scope: DevTarget['scope'], signal: AbortSignal): Promise<void> => {
    const serviceBundle = await options.serviceBundle(signal);
    const desired = options.desired(serviceBundle);
    const target = { url: options.own.url, caBundle: options.caBundle, serviceBundle, scope };
    for (const resource of RESOURCES)
      await retryConflicts(() => takeOne(options, taken, resource, desired[resource], target, signal));
  };
  return {
    take,
    reconcile: async (_key: string, signal: AbortSignal): Promise<ReconcileResult> => {
      await take('all', signal);
      return requeueIn(RENEW_MS, options.now());
    },
    restore: async (signal: AbortSignal): Promise<void> => {
      if (taken.size === 0) return;
      const serviceBundle = await options.serviceBundle(signal);
      const desired = options.desired(serviceBundle);
      const failures: unknown[] = [];
      for (const [resource, { before, first }] of taken) {
        const webhooks = servedWebhooks(before, { first, now: desired[resource].webhooks }, serviceBundle);
        try {
          await retryConflicts(() => restoreOne(options, resource, webhooks, signal));
          taken.delete(resource);
        } catch (error) {
          failures.push(error); // still put the other configuration back
        }
      }
      if (failures.length > 0)
        throw new Error(`could not restore ${[...taken.keys()].join(' and ')}`, { cause: failures[0] });
    },
  };
}

async function retryConflicts(write: () => Promise<void>): Promise<void> {
  for (let attempt = 1; ; attempt++) {
    try {
      await write();
      return;
    } catch (error) {
      if (attempt === MOST_CONFLICTS || !isConflict(error)) throw error;
    }
  }
}

async function takeOne(
  options: DevSessionOptions,
  taken: Map<WebhookResource, Taken>,
  resource: WebhookResource,
  desired: WebhookConfiguration,
  target: DevTarget,
  signal: AbortSignal,
): Promise<void> {
  const { client, own, serverNow, log } = options;
  const kind = WEBHOOK_CONFIGURATIONS[resource];
  const live = await client.get<LiveWebhookConfiguration>(kind, REF, { signal });
  const plan = planAcquire(live, desired, own, target, serverNow());
  const known = isOurs(live, options) ? taken.get(resource) : undefined;
  switch (plan.kind) {
    case 'refused':
      throw new DevSessionRefused(refusalOf(plan.by));
    case 'keep':
      return;
    case 'create':
      taken.set(resource, { before: [], first: desired.webhooks, reverts: 0 });
      await client.create(kind, plan.object, { signal });
      break;
    case 'replace': {
      const reverts = known !== undefined && isReverted(live, target.url) ? known.reverts + 1 : 0;
      if (reverts >= MOST_REVERTS)
        throw new DevSessionRefused(
          `another client keeps reverting the ${resource} "gatehouse": an older Gatehouse in the cluster, or a GitOps tool. Stop it, then start the session again`,
        );
      // When a laptop wakes up, the entries that the leader wrote in the meantime are the ones to restore later.
      const { before, first } = known ?? { before: live?.webhooks ?? [], first: desired.webhooks };
      // Recorded before the write, because its response may be lost. The annotation shows later whether it succeeded.
      taken.set(resource, { before, first, reverts });
      await client.replace(kind, plan.object, { signal });
    }
  }
  const fields = { resource, url: own.url, webhooks: plan.object.webhooks?.length ?? 0 };
  if (known === undefined) log.info(fields, 'webhook configuration points to this machine');
  else log.debug(fields, 'renewed the session');
}

function isOurs(live: LiveWebhookConfiguration | undefined, { own, serverNow }: DevSessionOptions): boolean {
  const state = devSessionOf(live ?? {}, serverNow());
  return state.kind !== 'none' && state.session?.id === own.id;
}

/** The first write already points the entries for our own kinds at this machine. */
const isReverted = (live: LiveWebhookConfiguration | undefined, url: string): boolean =>
  !(live?.webhooks ?? []).some(({ clientConfig }) => clientConfig.url?.startsWith(url));

const refusalOf = ({ holder, url, expiresAt }: DevSession): string =>
  `${holder} serves the webhook entries of this cluster at ${url}, until ${expiresAt.toISOString()} or longer if the session is ` +
  'renewed. Only one session can run at a time: ask them to end it, or wait until it expires';

async function restoreOne(
  options: DevSessionOptions,
  resource: WebhookResource,
  webhooks: readonly LiveWebhook[],
  signal: AbortSignal,
): Promise<void> {
  const { client, own, serverNow, log } = options;
  const kind = WEBHOOK_CONFIGURATIONS[resource];
  const live = await client.get<LiveWebhookConfiguration>(kind, REF, { signal });
  const plan = planRelease(live, own.id, webhooks, serverNow());
  switch (plan.kind) {
    case 'none':
      log.info({ resource }, 'webhook configuration belongs to another owner now');
      return;
    case 'delete': {
      const { uid, resourceVersion } = live?.metadata ?? {};
      await client.delete(kind, REF, { preconditions: { uid, resourceVersion }, signal });
      log.info({ resource }, 'removed webhook configuration');
      return;
    }
    case 'replace':
      await client.replace(kind, plan.object, { signal });
      log.info({ resource }, 'restored webhook configuration');
  }
}
