/** A dev session: a laptop serves the webhook configurations of a cluster for a while. */
import { isDeepStrictEqual } from 'node:util';

import type { KubeObject, ObjectMeta } from '../../json/kube-object.ts';
import { handlerOfEntry } from '../handlers/compile-handler.ts';
import { isOwnEntry } from './protect-own-kinds.ts';
import { DEV_URL_ANNOTATION, type Webhook, type WebhookConfiguration } from './webhook.ts';
import { compareText, isJsonObject, jsonIn, listIn, textIn } from '../../json/json.ts';

/** How long an unrenewed note stays valid, in milliseconds. A crashed laptop can block writes for this long. */
const DEV_SESSION_MS = 60_000;

/** In milliseconds. A note that expires later is invalid, so no note disables the leader for long. */
const MOST_MS = 5 * DEV_SESSION_MS;

export interface DevSession {
  /** Random; a process recognises its own note by it. */
  readonly id: string;
  /** The user and the machine, for people. */
  readonly holder: string;
  readonly url: string;
  /** The controllers of users that the session runs, by name: the leader pauses its own. */
  readonly controllers?: readonly string[];
  /** By the clock of the API server. */
  readonly expiresAt: Date;
  /** Whether the session created the configuration. Its end then deletes the configuration. */
  readonly created: boolean;
}

export type DevSessionState =
  | { readonly kind: 'none' }
  | { readonly kind: 'valid'; readonly session: DevSession }
  /** Expired, expiring too late, or invalid. `session` is undefined only if the note cannot be parsed. */
  | { readonly kind: 'over'; readonly session: DevSession | undefined };

export function devSessionOf({ metadata }: KubeObject, now: Date): DevSessionState {
  const text = metadata?.annotations?.[DEV_URL_ANNOTATION];
  if (text === undefined) return { kind: 'none' };
  const session = parseSession(text);
  const left = session === undefined ? 0 : session.expiresAt.getTime() - now.getTime();
  return session !== undefined && left > 0 && left <= MOST_MS
    ? { kind: 'valid', session }
    : { kind: 'over', session };
}

function parseSession(text: string): DevSession | undefined {
  const note = jsonIn(text);
  if (!isJsonObject(note)) return undefined;
  const { session: id, holder, url, created } = note;
  if (typeof id !== 'string' || typeof holder !== 'string' || typeof url !== 'string') return undefined;
  const expiresAt = new Date(textIn(note, 'expiresAt'));
  const controllers = listIn(note, 'controllers').filter((name) => typeof name === 'string');
  if (Number.isNaN(expiresAt.getTime())) return undefined;
  return { id, holder, url, expiresAt, created: created === true, controllers };
}

export function withDevSession(
  metadata: ObjectMeta | undefined,
  { id, holder, url, expiresAt, created, controllers = [] }: DevSession,
): ObjectMeta {
  const end = expiresAt.toISOString();
  const note = {
    holder,
    url,
    expiresAt: end,
    session: id,
    ...(created ? { created } : {}),
    ...(controllers.length > 0 ? { controllers } : {}),
  };
  return {
    ...metadata,
    annotations: { ...metadata?.annotations, [DEV_URL_ANNOTATION]: JSON.stringify(note) },
  };
}

export function withoutDevSession(metadata: ObjectMeta | undefined): ObjectMeta {
  const { annotations = {}, ...rest } = metadata ?? {};
  const others = Object.entries(annotations).filter(([key]) => key !== DEV_URL_ANNOTATION);
  return others.length === 0 ? rest : { ...rest, annotations: Object.fromEntries(others) };
}

/** An entry as read from a cluster: it can lead to a Service or to a URL. */
export type LiveWebhook = Omit<Webhook, 'clientConfig'> & {
  readonly clientConfig: {
    readonly service?: Webhook['clientConfig']['service'];
    readonly url?: string;
    readonly caBundle?: string;
  };
};

export interface LiveWebhookConfiguration extends KubeObject {
  readonly webhooks?: readonly LiveWebhook[];
}

export interface DevTarget {
  readonly url: string;
  /** CA bundle of the laptop, as base64 of PEM. */
  readonly caBundle: string;
  /** CA bundle of the Service; undefined if there is none or it cannot be read. */
  readonly serviceBundle: string | undefined;
  /** `own`: only entries of Gatehouse's own kinds, until the API server has reached the laptop. */
  readonly scope: 'own' | 'all';
}

/** Every entry in `desired` leads to the laptop. Handlers that only the cluster has still lead to the Service. */
export function devWebhooks(
  live: readonly LiveWebhook[],
  desired: readonly Webhook[],
  { url, caBundle, serviceBundle, scope }: DevTarget,
): readonly LiveWebhook[] {
  const mine = desired
    .filter((webhook) => scope === 'all' || isOwnEntry(entryOf(webhook)))
    .map((webhook) => ({
      ...webhook,
      clientConfig: { url: `${url}${webhook.clientConfig.service.path}`, caBundle },
    }));
  const names = new Set(mine.map(({ name }) => name));
  const kept = live
    .filter((webhook) => !names.has(webhook.name) && isServed(webhook))
    .filter((webhook) => scope === 'own' || isOfHandler(webhook));
  return inOrder([...mine, ...renewed(kept, serviceBundle)]);
}

/** The entries after a session lead to the Service again. They include what policies have required since, so nothing is unguarded. */
export function servedWebhooks(
  before: readonly LiveWebhook[],
  { first, now }: Readonly<Record<'first' | 'now', readonly Webhook[]>>,
  serviceBundle: string | undefined,
): readonly LiveWebhook[] {
  // If an earlier session crashed, the original entries are unknown. The leader soon restores them.
  const isKnown = before.every(isServed);
  const news = now.filter((webhook) => !isKnown || (!isOfHandler(webhook) && !carries(first, [webhook])));
  if (news.length === 0) return renewed(before, serviceBundle);
  const names = new Set(news.map(({ name }) => name));
  const kept = before.filter((webhook) => !names.has(webhook.name) && isServed(webhook));
  return renewed(inOrder([...news, ...kept]), serviceBundle);
}

/** Whether `live` has all entries of `desired`, regardless of where they lead. */
export function carries(live: readonly LiveWebhook[], desired: readonly LiveWebhook[]): boolean {
  const byName = new Map(live.map((webhook) => [webhook.name, webhook]));
  return desired.every((webhook) => {
    const { clientConfig } = webhook;
    return isDeepStrictEqual({ ...byName.get(webhook.name), clientConfig }, webhook);
  });
}

const isServed = ({ clientConfig }: LiveWebhook): boolean => clientConfig.service !== undefined;
const entryOf = ({ name }: Pick<Webhook, 'name'>): string => name.split('.')[0] ?? '';
const isOfHandler = (webhook: Pick<Webhook, 'name'>): boolean =>
  handlerOfEntry(entryOf(webhook)) !== undefined;

function renewed(webhooks: readonly LiveWebhook[], caBundle: string | undefined): readonly LiveWebhook[] {
  if (caBundle === undefined) return webhooks;
  return webhooks.map((webhook) =>
    isServed(webhook) ? { ...webhook, clientConfig: { ...webhook.clientConfig, caBundle } } : webhook,
  );
}

function inOrder(webhooks: readonly LiveWebhook[]): readonly LiveWebhook[] {
  const handlers = webhooks.filter(isOfHandler);
  const sorted = handlers.toSorted((a, b) => compareText(entryOf(a), entryOf(b)));
  const others = webhooks.filter((webhook) => !isOfHandler(webhook));
  const at = handlers.length === 0 ? others.length : webhooks.findIndex(isOfHandler);
  return [...others.slice(0, at), ...sorted, ...others.slice(at)];
}

type AcquirePlan =
  | { readonly kind: 'refused'; readonly by: DevSession }
  | { readonly kind: 'keep' }
  | { readonly kind: 'create'; readonly object: LiveWebhookConfiguration }
  | { readonly kind: 'replace'; readonly object: LiveWebhookConfiguration };

/** In milliseconds. A note with less time left is renewed: about a third of its lifetime has passed. */
const RENEW_BELOW_MS = (DEV_SESSION_MS * 2) / 3 + 5_000;

export function planAcquire(
  live: LiveWebhookConfiguration | undefined,
  desired: WebhookConfiguration,
  own: Pick<DevSession, 'id' | 'holder' | 'url' | 'controllers'>,
  target: DevTarget,
  now: Date,
): AcquirePlan {
  const expiresAt = new Date(now.getTime() + DEV_SESSION_MS);
  if (live === undefined) {
    const webhooks = devWebhooks([], desired.webhooks, target);
    const metadata = withDevSession(desired.metadata, { ...own, expiresAt, created: true });
    return { kind: 'create', object: { ...desired, metadata, webhooks } };
  }
  const state = devSessionOf(live, now);
  if (state.kind === 'valid' && isOther(state.session, own)) return { kind: 'refused', by: state.session };
  const webhooks = devWebhooks(live.webhooks ?? [], desired.webhooks, target);
  const isFresh =
    state.kind === 'valid' &&
    state.session.id === own.id &&
    state.session.expiresAt.getTime() - now.getTime() > RENEW_BELOW_MS;
  if (isFresh && isDeepStrictEqual(live.webhooks ?? [], webhooks)) return { kind: 'keep' };
  const created = state.kind !== 'none' && state.session?.created === true;
  const metadata = withDevSession(live.metadata, { ...own, expiresAt, created });
  return { kind: 'replace', object: { ...live, metadata, webhooks } };
}

/** The same holder and URL mean a restart after a crash. */
const isOther = (session: DevSession, own: Pick<DevSession, 'id' | 'holder' | 'url'>): boolean =>
  session.id !== own.id && !(session.holder === own.holder && session.url === own.url);

/** Ends the session `id`. @param webhooks the entries after the session */
export function planRelease(
  live: LiveWebhookConfiguration | undefined,
  id: string,
  webhooks: readonly LiveWebhook[],
  now: Date,
):
  | { readonly kind: 'none' }
  | { readonly kind: 'delete' }
  | { readonly kind: 'replace'; readonly object: LiveWebhookConfiguration } {
  const state = live === undefined ? undefined : devSessionOf(live, now);
  const session = state === undefined || state.kind === 'none' ? undefined : state.session;
  if (live === undefined || session?.id !== id) return { kind: 'none' };
  if (session.created) return { kind: 'delete' };
  return { kind: 'replace', object: { ...live, metadata: withoutDevSession(live.metadata), webhooks } };
}
