import { beforeEach, describe, expect, test } from 'vitest';
import { devSessionOf, type LiveWebhookConfiguration } from '../../admission/webhooks/dev-entries.ts';
import { webhookConfigurations } from '../../admission/webhooks/webhook-configurations.ts';
import { createDevSession, type DevSessionOptions } from './dev-session.ts';
import {
  ApiError,
  compiled,
  createCluster,
  NEVER,
  OWN_NAMESPACE,
  silent,
} from '../../../test/support/runtime/fixtures.ts';
import { mutatingWebhookConfigurations, validatingWebhookConfigurations } from '../../kube/well-known.ts';

const NAME = 'gatehouse';
const start = new Date('2026-11-22T06:00:00Z');
const later = (seconds: number) => new Date(start.getTime() + seconds * 1_000);
const eva = { id: 'a1', holder: 'eva@laptop', url: 'https://eva:8443' };
const olaf = { id: 'b2', holder: 'olaf@desk', url: 'https://olaf:8443' };

const tier = compiled({ defaults: [{ path: 'spec.tier', value: 'standard' }] });
const slow = { ...compiled({ validate: { immutable: ['spec.rack'] } }), name: 'slow', timeoutSeconds: 9 };

const cluster = createCluster();
const mutating = cluster.objects<LiveWebhookConfiguration>(mutatingWebhookConfigurations);
const validating = cluster.objects<LiveWebhookConfiguration>(validatingWebhookConfigurations);
let now: Date;
let policies: readonly (typeof tier)[];
let bundle: string | undefined;

const desired = (caBundle = '') => {
  const { mutating, validating } = webhookConfigurations(policies, {
    service: { namespace: OWN_NAMESPACE, name: NAME, port: 443 },
    ownNamespace: OWN_NAMESPACE,
    protectsOwnKinds: true,
    caBundle,
  });
  return { mutatingwebhookconfigurations: mutating, validatingwebhookconfigurations: validating };
};

/** Writes both configurations as the leader of the cluster does. */
function install(): void {
  const wanted = desired(bundle);
  mutating.add(wanted.mutatingwebhookconfigurations);
  validating.add(wanted.validatingwebhookconfigurations);
}

beforeEach(() => {
  cluster.reset();
  now = start;
  policies = [tier];
  bundle = 'T0xE';
});

type Change = Partial<Omit<DevSessionOptions, 'client'>> & {
  readonly client?: Partial<DevSessionOptions['client']>;
};

const session = ({ client, ...change }: Change = {}) =>
  createDevSession({
    own: eva,
    caBundle: 'REVW',
    serviceBundle: () => Promise.resolve(bundle),
    desired,
    client: { ...cluster.client, ...client },
    now: () => now,
    serverNow: () => now,
    log: silent,
    ...change,
  });

const both = () => [mutating, validating].map((objects) => objects.read(NAME));
const writes = () => mutating.writes() + validating.writes();
const sessions = () => both().map((object) => devSessionOf(object ?? {}, now));
const places = () =>
  both().flatMap((object) => object?.webhooks?.map(({ clientConfig: { url } }) => url ?? 'service') ?? []);

/** Both configurations, without resourceVersion. */
const shown = () =>
  both().map((object) => ({ ...object, metadata: { ...object?.metadata, resourceVersion: undefined } }));

describe('a session in a cluster that has Gatehouse', () => {
  beforeEach(install);

  test('takes both configurations, renews them in time, and restores them', async () => {
    const before = shown();
    const { take, reconcile, restore } = session();
    await take('all', NEVER);
    expect(new Set(places().map((place) => place.slice(0, eva.url.length)))).toEqual(new Set([eva.url]));
    expect(sessions()).toMatchObject([{ session: { ...eva, expiresAt: later(60) } }, { session: eva }]);

    expect(await reconcile('', NEVER)).toEqual({ kind: 'requeue', at: later(20) });
    expect(writes()).toBe(2);
    now = later(20);
    await reconcile('', NEVER);
    expect(sessions()).toMatchObject([{ session: { expiresAt: later(80) } }, {}]);

    await restore(NEVER);
    await restore(NEVER);
    expect(shown()).toEqual(before);
    expect(writes()).toBe(6);
  });

  test('when one configuration cannot be restored, the other still is, and the next attempt retries the first', async () => {
    const before = shown();
    let isBroken = false;
    const replace: typeof cluster.client.replace = (kind, object) =>
      isBroken && kind.resource === 'mutatingwebhookconfigurations'
        ? Promise.reject(new ApiError(500, 'etcd is away'))
        : cluster.client.replace(kind, object);
    const { take, restore } = session({ client: { replace } });
    await take('all', NEVER);
    isBroken = true;
    await expect(restore(NEVER)).rejects.toThrow('could not restore mutatingwebhookconfigurations');
    expect(shown()[0]).not.toEqual(before[0]);
    expect(shown()[1]).toEqual(before[1]);
    isBroken = false;
    await restore(NEVER);
    expect(shown()).toEqual(before);
  });

  test('begins when another session has expired, and that session is then refused', async () => {
    const first = session();
    await first.take('all', NEVER);
    now = later(60);
    await session({ own: olaf }).take('all', NEVER);
    expect(sessions()).toMatchObject([{ session: olaf }, { session: olaf }]);
    await expect(first.reconcile('', NEVER)).rejects.toThrow('olaf@desk serves');
    const during = shown();
    await first.restore(NEVER);
    expect(shown()).toEqual(during);
  });

  test('after a sleep takes the entries again that the leader took back, and restores what the leader wrote', async () => {
    const { take, restore } = session();
    await take('all', NEVER);
    now = later(300);
    policies = [tier, slow];
    bundle = 'TkVX';
    install();
    const byLeader = shown();
    await take('all', NEVER);
    expect(places()).not.toContain('service');
    await restore(NEVER);
    expect(shown()).toEqual(byLeader);
  });

  test('retries when another client wrote in between, and keeps that change', async () => {
    let others = 2;
    const replace: typeof cluster.client.replace = (kind, object) => {
      if (others-- > 0) cluster.objects(kind).patch(NAME, { metadata: { labels: { other: 'writer' } } });
      return cluster.client.replace(kind, object);
    };
    const { take, restore } = session({ client: { replace } });
    await take('all', NEVER);
    expect(mutating.read(NAME)?.metadata?.labels).toMatchObject({ other: 'writer' });
    expect(places()).not.toContain('service');
    others = 2;
    await restore(NEVER);
    expect(new Set(places())).toEqual(new Set(['service']));
  });

  test('treats a write whose answer was lost as its own, and puts it back', async () => {
    const before = shown();
    mutating.interrupt('after');
    const { take, restore } = session();
    await expect(take('all', NEVER)).rejects.toThrow('after the write');
    await restore(NEVER);
    expect(new Set(places())).toEqual(new Set(['service']));
    expect(shown()).toEqual(before);
  });

  test('ends when another client reverts the entries again and again', async () => {
    const { reconcile } = session();
    const revert = () => {
      const wanted = desired(bundle);
      mutating.patch(NAME, { webhooks: wanted.mutatingwebhookconfigurations.webhooks });
      validating.patch(NAME, { webhooks: wanted.validatingwebhookconfigurations.webhooks });
    };
    await reconcile('', NEVER);
    for (let time = 1; time < 3; time++) {
      revert();
      await reconcile('', NEVER);
    }
    revert();
    await expect(reconcile('', NEVER)).rejects.toThrow('another client keeps reverting');
  });
});
