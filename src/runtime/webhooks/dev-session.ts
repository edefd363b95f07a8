/** On a developer's machine: both webhook configurations lead here while the session lasts, and back to the Service after it. */
import {
  planPutBack,
  planTake,
  servedWebhooks,
  type DevTarget,
  type LentConfiguration,
  type LiveWebhook,
} from '../../admission/webhooks/dev-entries.ts';
import { devSessionOf, type DevSession } from '../../admission/webhooks/dev-session.ts';
import type { WebhookConfiguration } from '../../admission/webhooks/webhook-configurations.ts';
import type { Log } from '../../log.ts';
import { requeueIn, type Reconcile } from '../controller.ts';
import type { WebhookResource } from './webhook-configurations.ts';

export interface DevSessionDeps {
  readonly own: Pick<DevSession, 'id' | 'holder' | 'url'>;
  /** Of this machine; base64 of PEM. */
  readonly caBundle: string;
  /** Of the cluster, read live; base64 of PEM. Undefined: there is none, or it may not be read. */
  readonly serviceBundle: (signal: AbortSignal) => Promise<string | undefined>;
  /** As they would lead to the Service. */
  readonly desired: (
    serviceBundle: string | undefined,
  ) => Readonly<Record<WebhookResource, WebhookConfiguration>>;
  readonly read: (resource: WebhookResource, signal: AbortSignal) => Promise<LentConfiguration | undefined>;
  readonly create: (
    resource: WebhookResource,
    object: LentConfiguration,
    signal: AbortSignal,
  ) => Promise<unknown>;
  /** Writes `object` if it still has the resourceVersion in its metadata. */
  readonly replace: (
    resource: WebhookResource,
    object: LentConfiguration,
    signal: AbortSignal,
  ) => Promise<unknown>;
  /** Deletes `object` if it still is as it was read. */
  readonly remove: (
    resource: WebhookResource,
    object: LentConfiguration,
    signal: AbortSignal,
  ) => Promise<unknown>;
  readonly isConflict: (error: unknown) => boolean;
  readonly now: () => Date;
  /** By the clock of the API server. */
  readonly serverNow: () => Date;
  readonly log: Log;
}

/** Going on would take turns with somebody else: the session is over. */
export class DevSessionRefused extends Error {
  override readonly name = 'DevSessionRefused';
}

export interface RunningDevSession {
  /**
   * Takes the entries, or renews what was taken.
   * @throws DevSessionRefused when somebody else serves, or keeps on taking the entries away
   */
  readonly take: (scope: DevTarget['scope'], signal: AbortSignal) => Promise<void>;
  readonly reconcile: Reconcile;
  /** Resolves when nothing is left of the session. Does nothing when nothing was taken. */
  readonly putBack: (signal: AbortSignal) => Promise<void>;
}

const RESOURCES = ['mutatingwebhookconfigurations', 'validatingwebhookconfigurations'] as const;

/** Two failures in a row still leave a third attempt before the note of 60 s has expired; in milliseconds. */
const RENEW_MS = 20_000;
/** One that others write in between, such as a leader that renews a bundle, is read again. */
const MOST_CONFLICTS = 10;
const MOST_REVERTS = 3;

/** What this process remembers of one configuration. */
interface Taken {
  /** What was there before, and what this process wanted then. */
  readonly before: readonly LiveWebhook[];
  readonly first: WebhookConfiguration['webhooks'];
  /** How often, one look after the other, somebody had put entries back. */
  readonly reverts: number;
}

export function createDevSession(deps: DevSessionDeps): RunningDevSession {
  const taken = new Map<WebhookResource, Taken>();

  const take: RunningDevSession['take'] = async (scope, signal) => {
    const serviceBundle = await deps.serviceBundle(signal);
    const desired = deps.desired(serviceBundle);
    const target = { url: deps.own.url, caBundle: deps.caBundle, serviceBundle, scope };
    for (const resource of RESOURCES)
      await repeatedly(deps, () =>
        takeOne(deps, taken, { resource, desired: desired[resource], target }, signal),
      );
  };
  return {
    take,
    reconcile: async (_key, signal) => {
      await take('all', signal);
      return requeueIn(RENEW_MS, deps.now());
    },
    putBack: async (signal) => {
      if (taken.size === 0) return;
      const serviceBundle = await deps.serviceBundle(signal);
      const desired = deps.desired(serviceBundle);
      const failures: unknown[] = [];
      for (const [resource, { before, first }] of taken) {
        const webhooks = servedWebhooks(before, { first, now: desired[resource].webhooks }, serviceBundle);
        try {
          await repeatedly(deps, () => putBackOne(deps, resource, webhooks, signal));
          taken.delete(resource);
        } catch (error) {
          failures.push(error); // the other one leads to nobody either
        }
      }
      if (failures.length > 0)
        throw new Error(`could not put back ${[...taken.keys()].join(' and ')}`, { cause: failures[0] });
    },
  };
}

async function repeatedly({ isConflict }: DevSessionDeps, write: () => Promise<void>): Promise<void> {
  for (let attempt = 1; ; attempt++) {
    try {
      await write();
      return;
    } catch (error) {
      if (attempt === MOST_CONFLICTS || !isConflict(error)) throw error;
    }
  }
}

interface TakeOrder {
  readonly resource: WebhookResource;
  readonly desired: WebhookConfiguration;
  readonly target: DevTarget;
}

async function takeOne(
  deps: DevSessionDeps,
  taken: Map<WebhookResource, Taken>,
  { resource, desired, target }: TakeOrder,
  signal: AbortSignal,
): Promise<void> {
  const { own, read, create, replace, serverNow, log } = deps;
  const live = await read(resource, signal);
  const plan = planTake(live, desired, own, target, serverNow());
  const known = isOurs(live, deps) ? taken.get(resource) : undefined;
  switch (plan.kind) {
    case 'refused':
      throw new DevSessionRefused(refusalOf(plan.by));
    case 'keep':
      return;
    case 'create':
      taken.set(resource, { before: [], first: desired.webhooks, reverts: 0 });
      await create(resource, plan.object, signal);
      break;
    case 'replace': {
      const reverts = known !== undefined && isReverted(live, target.url) ? known.reverts + 1 : 0;
      if (reverts >= MOST_REVERTS)
        throw new DevSessionRefused(
          `somebody keeps on changing the ${resource} "gatehouse" back: is the Gatehouse in the cluster older than this one, or a GitOps tool at work?`,
        );
      // After a laptop has slept, what the leader wrote meanwhile is what to go back to.
      const { before, first } = known ?? { before: live?.webhooks ?? [], first: desired.webhooks };
      // Before the write: its answer may be lost, and the note says afterwards whether it is ours.
      taken.set(resource, { before, first, reverts });
      await replace(resource, plan.object, signal);
    }
  }
  const fields = { resource, url: own.url, webhooks: plan.object.webhooks?.length ?? 0 };
  if (known === undefined) log.info(fields, 'webhook configuration leads here');
  else log.debug(fields, 'renewed the session');
}

function isOurs(live: LentConfiguration | undefined, { own, serverNow }: DevSessionDeps): boolean {
  const state = devSessionOf(live ?? {}, serverNow());
  return state.kind !== 'none' && state.session?.id === own.id;
}

/** Entries of Gatehouse itself lead here from the first write on. */
const isReverted = (live: LentConfiguration | undefined, url: string): boolean =>
  !(live?.webhooks ?? []).some(({ clientConfig }) => clientConfig.url?.startsWith(url));

const refusalOf = ({ holder, url, expiresAt }: DevSession): string =>
  `${holder} serves the webhook entries of this cluster at ${url}, until ${expiresAt.toISOString()} and longer if that session ` +
  'is renewed: one at a time. Ask them to end it, or wait until it has expired';

async function putBackOne(
  deps: DevSessionDeps,
  resource: WebhookResource,
  webhooks: readonly LiveWebhook[],
  signal: AbortSignal,
): Promise<void> {
  const { own, read, replace, remove, serverNow, log } = deps;
  const live = await read(resource, signal);
  const plan = planPutBack(live, own.id, webhooks, serverNow());
  switch (plan.kind) {
    case 'none':
      log.info({ resource }, 'webhook configuration has been put back already');
      return;
    case 'delete':
      if (live !== undefined) await remove(resource, live, signal);
      log.info({ resource }, 'removed webhook configuration');
      return;
    case 'replace':
      await replace(resource, plan.object, signal);
      log.info({ resource }, 'put webhook configuration back');
  }
}
