import { expect, test } from 'vitest';

import {
  devWebhooks,
  planRelease,
  planAcquire,
  servedWebhooks,
  devSessionOf,
  withDevSession,
  withoutDevSession,
  type LiveWebhook,
} from './dev-entries.ts';
import { webhookConfigurations } from './webhook-configurations.ts';
import { DEV_URL_ANNOTATION, type Webhook, type WebhookConfiguration } from './webhook.ts';

const now = new Date('2026-11-22T06:00:00Z');
const soon = new Date(now.getTime() + 60_000);
const eva = { id: 'a1', holder: 'eva@laptop', url: 'https://eva:8443' };
const olaf = { id: 'b2', holder: 'olaf@desk', url: 'https://olaf:8443' };
const target = { url: eva.url, caBundle: 'REVW', serviceBundle: undefined, scope: 'all' } as const;

/** A configuration with the entries of Gatehouse's own kinds and the given entries. */
function configuration(...entries: readonly string[]): WebhookConfiguration {
  const { validating } = webhookConfigurations([], {
    service: { namespace: 'gatehouse-system', name: 'gatehouse', port: 443 },
    caBundle: 'T0xE',
    ownNamespace: 'gatehouse-system',
    protectsOwnKinds: true,
  });
  const [own] = validating.webhooks;
  if (own === undefined) throw new Error('expected entries for our own kinds');
  const made = entries.map((entry): Webhook => {
    const service = { ...own.clientConfig.service, path: `/validate/${entry}` };
    return {
      ...own,
      name: `${entry}.validate.gatehouse.dev`,
      clientConfig: { ...own.clientConfig, service },
    };
  });
  return { ...validating, webhooks: [...validating.webhooks, ...made] };
}

const shown = (webhooks: readonly LiveWebhook[]) =>
  webhooks.map(({ name, clientConfig: { url, caBundle } }) => [
    name.split('.')[0],
    url ?? 'service',
    caBundle,
  ]);

const cluster = configuration('fail-5s-1', 'handler-b', 'handler-c');
const laptop = configuration('fail-5s-1', 'handler-a', 'handler-c');

test('the laptop serves its entries, and the cluster still serves handlers that the laptop lacks', () => {
  expect(shown(devWebhooks(cluster.webhooks, laptop.webhooks, target)).slice(2)).toEqual([
    ['fail-5s-1', 'https://eva:8443/validate/fail-5s-1', 'REVW'],
    ['handler-a', 'https://eva:8443/validate/handler-a', 'REVW'],
    ['handler-b', 'service', 'T0xE'],
    ['handler-c', 'https://eva:8443/validate/handler-c', 'REVW'],
  ]);
});

test('entries that policies need since the session began are returned, without the handlers of the laptop', () => {
  const wider = laptop.webhooks.map((webhook) => ({ ...webhook, timeoutSeconds: 9 }));
  const now = [...wider, ...configuration('fail-9s-2').webhooks.slice(-1)];
  const back = servedWebhooks(cluster.webhooks, { first: laptop.webhooks, now }, undefined);
  expect(back.map(({ name, timeoutSeconds }) => [name.split('.')[0], timeoutSeconds === 9]).slice(2)).toEqual(
    [
      ['fail-5s-1', true],
      ['fail-9s-2', false],
      ['handler-b', false],
      ['handler-c', false],
    ],
  );
});

const take = (live: Parameters<typeof planAcquire>[0], own = eva, at = now) =>
  planAcquire(live, laptop, own, { ...target, url: own.url }, at);

test('borrowing twice equals borrowing once, and the note is renewed before it expires', () => {
  const first = take(cluster);
  if (first.kind !== 'replace') throw new Error('expected a replacement');
  expect(devSessionOf(first.object, now)).toEqual({
    kind: 'valid',
    session: { ...eva, expiresAt: soon, created: false, controllers: [] },
  });
  expect(take(first.object)).toEqual({ kind: 'keep' });
  expect(take(first.object, eva, new Date(now.getTime() + 20_000))).toMatchObject({ kind: 'replace' });
});

test('another user is refused while the note is valid, and takes over after it expires', () => {
  const first = take(cluster);
  if (first.kind !== 'replace') throw new Error('expected a replacement');
  expect(take(first.object, olaf)).toMatchObject({
    kind: 'refused',
    by: { holder: 'eva@laptop', expiresAt: soon },
  });
  expect(take(first.object, olaf, soon)).toMatchObject({ kind: 'replace' });
  // A restart after a crash.
  expect(take(first.object, { ...eva, id: 'a2' })).toMatchObject({ kind: 'replace' });
});

test('entries that did not exist before are deleted at the end, even by a later session', () => {
  const made = take(undefined);
  if (made.kind !== 'create') throw new Error('expected a creation');
  expect(planRelease(made.object, eva.id, [], now)).toEqual({ kind: 'delete' });
  const later = take(made.object, olaf, soon);
  if (later.kind !== 'replace') throw new Error('expected a replacement');
  expect(planRelease(later.object, olaf.id, [], soon)).toEqual({ kind: 'delete' });
});

test('the original entries are returned, and only those of Gatehouse', () => {
  const first = take(cluster);
  if (first.kind !== 'replace') throw new Error('expected a replacement');
  expect(planRelease(first.object, eva.id, cluster.webhooks, soon)).toEqual({
    kind: 'replace',
    object: cluster,
  });
  expect(planRelease(first.object, olaf.id, cluster.webhooks, now)).toEqual({ kind: 'none' });
  expect(planRelease(cluster, eva.id, cluster.webhooks, now)).toEqual({ kind: 'none' });
  expect(planRelease(undefined, eva.id, cluster.webhooks, now)).toEqual({ kind: 'none' });
});

test('an unreadable note blocks no session', () => {
  const odd = { ...cluster, metadata: { ...cluster.metadata, annotations: { [DEV_URL_ANNOTATION]: 'x' } } };
  expect(take(odd)).toMatchObject({ kind: 'replace' });
  const distant = withDevSession(cluster.metadata, {
    ...session,
    ...olaf,
    expiresAt: new Date('2099-01-01'),
  });
  expect(take({ ...cluster, metadata: distant })).toMatchObject({ kind: 'replace' });
});

const inSeconds = (seconds: number) => new Date(now.getTime() + seconds * 1_000);
const session = { ...eva, expiresAt: inSeconds(60), created: false, controllers: [] };
const noted = (annotation: string) => ({ metadata: { annotations: { [DEV_URL_ANNOTATION]: annotation } } });

test('a note survives the round trip, and other annotations remain', () => {
  const metadata = withDevSession({ name: 'gatehouse', annotations: { note: 'b' } }, session);
  expect(metadata.annotations).toMatchObject({ note: 'b' });
  expect(devSessionOf({ metadata }, now)).toEqual({ kind: 'valid', session });
  expect(withoutDevSession(metadata)).toEqual({ name: 'gatehouse', annotations: { note: 'b' } });
});

test.each([
  ['has expired', 0, 'over'],
  ['is valid for another second', 1, 'valid'],
  ['claims more than a session may', 301, 'over'],
])('a note that %s', (_what, seconds, kind) => {
  const metadata = withDevSession({}, { ...session, expiresAt: inSeconds(seconds) });
  expect(devSessionOf({ metadata }, now).kind).toBe(kind);
});

test.each(['null', '{', '{"__proto__":{"session":"a"}}', '{"session":"a","holder":"b","url":"c"}'])(
  'an invalid note is ignored: %s',
  (text) => {
    expect(devSessionOf(noted(text), now)).toEqual({ kind: 'over', session: undefined });
  },
);
