import { beforeEach, describe, expect, test } from 'vitest';

import { NO_RELEASES } from '../../admission/native/release.ts';
import type { CompiledPolicy } from '../../admission/policy/compile.ts';
import { rulesOf } from '../../admission/webhooks/webhook-configurations.ts';
import {
  DEV_URL_ANNOTATION,
  withDevSession,
  type LiveWebhookConfiguration,
} from '../../admission/webhooks/dev-entries.ts';
import {
  ApiError,
  compiled,
  createCluster,
  GROUP,
  NEVER,
  OWN_NAMESPACE,
  silent,
  untilDone,
  type Cluster,
  type Objects,
} from '../../../test/support/runtime/fixtures.ts';
import { installationOwner } from '../../admission/webhooks/installation-owner.ts';
import type { KubeObject, OwnerReference } from '../../json/kube-object.ts';
import type { NamedRef, Resource } from '../../kube/object.ts';
import { mutatingWebhookConfigurations, validatingWebhookConfigurations } from '../../kube/well-known.ts';
import {
  createWebhookConfigurationsReconciler,
  type WebhookConfigurationsOptions,
} from './webhook-configurations.ts';
import type { WebhookResource } from './installed-webhooks.ts';

const NAME = 'gatehouse';
const now = new Date('2026-11-21T12:00:00Z');
let serverNow: Date;

let cluster: Cluster;
let live: Record<WebhookResource, Objects<LiveWebhookConfiguration>>;
let policies: readonly CompiledPolicy[];
let caBundle: string | undefined;
let awaited: readonly CompiledPolicy[];
let refused: ReadonlyMap<string, string>;
let pathToken: string | undefined;
let owner: OwnerReference | undefined;
let obstacle: string | undefined;
let waiting: string | undefined;

beforeEach(() => {
  cluster = createCluster();
  live = {
    mutatingwebhookconfigurations: cluster.objects(mutatingWebhookConfigurations),
    validatingwebhookconfigurations: cluster.objects(validatingWebhookConfigurations),
  };
  policies = [compiled({ defaults: [{ path: 'spec.tier', value: 'standard' }] })];
  caBundle = 'AAAA';
  awaited = [];
  refused = new Map();
  pathToken = '';
  owner = installationOwner('1');
  obstacle = undefined;
  waiting = undefined;
  serverNow = now;
});

const installation: WebhookConfigurationsOptions['installation'] = {
  owner: () => Promise.resolve(owner),
  obstacle: () => Promise.resolve(obstacle),
  withOwner: (by, write) => write(by),
};

type Client = WebhookConfigurationsOptions['client'];
type Change = Partial<Omit<WebhookConfigurationsOptions, 'client'>> & { readonly client?: Partial<Client> };

const reconciler = ({ client, ...change }: Change = {}) =>
  createWebhookConfigurationsReconciler({
    handlers: [],
    releaseOf: NO_RELEASES,
    policies: () => policies,
    caBundle: () => caBundle,
    pathToken: () => pathToken,
    target: {
      service: { namespace: OWN_NAMESPACE, name: 'gatehouse', port: 443 },
      ownNamespace: OWN_NAMESPACE,
      protectsOwnKinds: false,
    },
    client: { ...cluster.client, ...client },
    detectors: { list: () => [] },
    awaited: () => rulesOf(awaited),
    waitsFor: () => Promise.resolve(undefined),
    installation,
    onWaiting: (next) => {
      waiting = next;
    },
    onRefused: (next) => {
      refused = next;
    },
    now: () => now,
    serverNow: () => serverNow,
    log: silent,
    ...change,
  });
const reconcile = (change?: Change) => reconciler(change)(NAME, NEVER);

const mutating = () => live.mutatingwebhookconfigurations;
const validating = () => live.validatingwebhookconfigurations;
const both = () => [validating(), mutating()];
const writes = () => mutating().writes() + validating().writes();
const webhooksOf = (objects: Objects<LiveWebhookConfiguration>) => objects.read(NAME)?.webhooks ?? [];
const paths = () =>
  both().flatMap((objects) => webhooksOf(objects).map(({ clientConfig }) => clientConfig.service?.path));
type Entry = NonNullable<LiveWebhookConfiguration['webhooks']>[number];
/** Another client changes each webhook. */
const editWebhooks = (
  change: (webhook: Entry) => Entry,
  ...all: readonly Objects<LiveWebhookConfiguration>[]
) => {
  for (const objects of all)
    objects.edit(NAME, (object) => ({ ...object, webhooks: (object.webhooks ?? []).map(change) }));
};
/** As `gatehouse dev` does: the webhooks call a laptop. */
const toLaptop = (webhook: Entry): Entry => ({
  ...webhook,
  clientConfig: { url: `https://eva:8443${webhook.clientConfig.service?.path ?? ''}`, caBundle: 'EVA=' },
});
const withBundle = (bundle: string) => ({ webhooks: [{ clientConfig: { caBundle: bundle } }] });

test('both configurations are created once', async () => {
  expect(await reconcile()).toEqual({ kind: 'requeue', at: new Date('2026-11-21T12:01:00Z') });
  expect(mutating().read(NAME)).toMatchObject({
    kind: 'MutatingWebhookConfiguration',
    metadata: { labels: { 'velero.io/exclude-from-backup': 'true' } },
    webhooks: [{ clientConfig: { caBundle: 'AAAA' }, rules: [{ resources: ['servers'] }] }],
  });
  expect(webhooksOf(validating())).toHaveLength(1);
  await reconcile();
  expect(writes()).toBe(2);
});

test.each(['mutatingwebhookconfigurations', 'validatingwebhookconfigurations'])(
  'while %s cannot be read, the other one is written',
  async (broken) => {
    const away = new Error('away');
    const get = ((kind: Resource, ...rest: [NamedRef]) =>
      kind.resource === broken ? Promise.reject(away) : cluster.client.get(kind, ...rest)) as Client['get'];
    await expect(reconcile({ client: { get } })).rejects.toBe(away);
    expect(writes()).toBe(1);
  },
);

test('nothing is installed before an authority exists: its certificates could not be verified', async () => {
  caBundle = undefined;
  expect(await reconcile()).toMatchObject({ kind: 'requeue' });
  expect(writes()).toBe(0);
});

test('without a path token nothing is written; then every path has it', async () => {
  pathToken = undefined;
  expect(await reconcile()).toMatchObject({ kind: 'requeue' });
  expect(writes()).toBe(0);
  pathToken = '0'.repeat(32);
  await reconcile();
  expect(paths()).toHaveLength(2);
  for (const path of paths()) expect(path).toMatch(/^\/(mutate|validate)\/0{32}\/fail-/);
});

test('a configuration without policies is empty, and equals one that the API server returns without a webhooks field', async () => {
  policies = [];
  await reconcile();
  mutating().patch(NAME, { webhooks: null });
  await reconcile();
  expect(mutating().read(NAME)).not.toHaveProperty('webhooks');
  expect(writes()).toBe(2);
});

describe('a configuration is repaired', () => {
  test.each<[string, () => void]>([
    [
      'whose webhooks are missing',
      () => {
        validating().patch(NAME, { webhooks: [] });
      },
    ],
    [
      'that was set to ignore failures',
      () => {
        editWebhooks((webhook) => ({ ...webhook, failurePolicy: 'Ignore' }), validating());
      },
    ],
    [
      'whose caBundle was wiped',
      () => {
        editWebhooks(
          (webhook) => ({ ...webhook, clientConfig: { ...webhook.clientConfig, caBundle: '' } }),
          validating(),
        );
      },
    ],
    [
      'whose labels are missing',
      () => {
        validating().patch(NAME, { metadata: { labels: null } });
      },
    ],
  ])('%s', async (_what, spoil) => {
    await reconcile();
    const healthy = validating().read(NAME);
    spoil();
    await reconcile();
    const resourceVersion = expect.any(String) as string;
    expect(validating().read(NAME)).toEqual({
      ...healthy,
      metadata: { ...healthy?.metadata, resourceVersion },
    });
    expect(mutating().writes()).toBe(1);
  });

  test('and the labels and annotations of other clients stay', async () => {
    await reconcile();
    const metadata = { labels: { team: 'a' }, annotations: { note: 'b' } };
    validating().patch(NAME, { metadata });
    await reconcile();
    expect(validating().writes()).toBe(1);

    caBundle = 'BBBB';
    await reconcile();
    expect(validating().read(NAME)).toMatchObject({ metadata, ...withBundle('BBBB') });
  });

  test('when the policies change', async () => {
    await reconcile();
    policies = [];
    await reconcile();
    expect(validating().read(NAME)?.webhooks).toEqual([]);
  });
});

describe('the owner', () => {
  const ownersOf = () => both().map((objects) => objects.read(NAME)?.metadata?.ownerReferences);
  const ownedBy = (uid: string) => [[installationOwner(uid)], [installationOwner(uid)]];

  test('is the role of the installation, with its current uid', async () => {
    await reconcile();
    expect(ownersOf()).toEqual(ownedBy('1'));
    owner = installationOwner('2');
    await reconcile();
    await reconcile();
    expect(ownersOf()).toEqual(ownedBy('2'));
    expect(writes()).toBe(4);
  });

  test('stays when the role goes: the garbage collector deletes the configurations', async () => {
    await reconcile();
    owner = undefined;
    caBundle = 'BBBB';
    await reconcile();
    expect(ownersOf()).toEqual(ownedBy('1'));
  });

  test('is nobody without the role, and the configurations are written', async () => {
    owner = undefined;
    await reconcile();
    expect(ownersOf()).toEqual([undefined, undefined]);
    expect(writes()).toBe(2);
  });

  test('is left out if the API server refuses it, and the rest is written', async () => {
    await reconcile();
    owner = installationOwner('2');
    caBundle = 'BBBB';
    const withOwner = ((_by, write) => write(undefined)) as typeof installation.withOwner;
    await reconcile({ installation: { ...installation, withOwner } });
    expect(ownersOf()).toEqual(ownedBy('1'));
    expect(validating().read(NAME)).toMatchObject(withBundle('BBBB'));
  });
});

describe('while somebody removes Gatehouse', () => {
  test('nothing is created, and users learn why; afterwards it is', async () => {
    obstacle = 'the Service is gone';
    expect(await reconcile()).toEqual({ kind: 'requeue', at: new Date(now.getTime() + 1_000) });
    expect([writes(), waiting]).toEqual([0, obstacle]);
    obstacle = undefined;
    await reconcile();
    expect([writes(), waiting]).toEqual([2, undefined]);
  });

  test('what exists is still updated', async () => {
    await reconcile();
    obstacle = 'the Service is gone';
    mutating().remove(NAME);
    caBundle = 'BBBB';
    await reconcile();
    expect(mutating().read(NAME)).toBeUndefined();
    expect(validating().read(NAME)).toMatchObject(withBundle('BBBB'));
    expect(waiting).toBe(obstacle);
  });
});

test('a write that meets a conflict fails', async () => {
  await reconcile();
  const stale = validating().read(NAME);
  validating().patch(NAME, { webhooks: [] });
  const get = <T extends KubeObject>(kind: Resource, ref: NamedRef) =>
    kind === validatingWebhookConfigurations && stale !== undefined
      ? Promise.resolve({ ...stale, webhooks: [] } as unknown as T) // the requested kind
      : cluster.client.get<T>(kind, ref);
  await expect(reconcile({ client: { get } })).rejects.toMatchObject({ code: 409 });
  await reconcile();
});

describe.each(['mutatingwebhookconfigurations', 'validatingwebhookconfigurations'] as const)(
  'killed around a write to %s it converges:',
  (resource) => {
    test.each([
      ['before', 'creation', 3],
      ['after', 'creation', 2],
      ['before', 'update', 3],
      ['after', 'update', 2],
    ] as const)('%s the %s', async (when, kind, expected) => {
      if (kind === 'update') {
        await reconcile();
        caBundle = 'BBBB';
      }
      const before = writes();
      live[resource].interrupt(when);
      await expect(reconcile()).rejects.toThrow('connection broke');
      await untilDone(reconciler(), NAME);
      expect(writes() - before).toBe(expected);
      for (const objects of both()) expect(objects.read(NAME)).toMatchObject(withBundle(caBundle ?? ''));
    });
  },
);

describe('a configuration that a laptop has borrowed', () => {
  const session = { id: 'a', holder: 'eva@laptop', url: 'https://eva:8443', created: false };
  const lend = (expiresAt: Date) => {
    editWebhooks(toLaptop, ...both());
    for (const objects of both())
      objects.edit(NAME, (object) => ({
        ...object,
        metadata: withDevSession(object.metadata, { ...session, expiresAt }),
      }));
  };
  const end = new Date(now.getTime() + 30_000);

  beforeEach(async () => {
    await reconcile();
    lend(end);
  });

  test('is left alone, also when the bundle or the policies change, and reconciled when the session is over', async () => {
    caBundle = 'BBBB';
    expect(await reconcile()).toEqual({ kind: 'requeue', at: new Date(end.getTime() + 100) });
    policies = [compiled({ validate: { immutable: ['spec.rack'] } })];
    await reconcile();
    expect(writes()).toBe(2);
  });

  test('names the Service again when the session has expired, without the session annotations', async () => {
    serverNow = end;
    await reconcile();
    await reconcile();
    expect(writes()).toBe(4);
    expect(mutating().read(NAME)).toMatchObject({
      webhooks: [{ clientConfig: { caBundle: 'AAAA', service: { name: 'gatehouse' } } }],
    });
    expect(mutating().read(NAME)?.metadata?.annotations).toBeUndefined();
  });

  test('is repaired at once when the annotation claims more time than a session can have', async () => {
    lend(new Date('2099-01-01T00:00:00Z'));
    await reconcile();
    expect(validating().read(NAME)?.metadata?.annotations?.[DEV_URL_ANNOTATION]).toBeUndefined();
    expect(webhooksOf(validating())[0]?.clientConfig.url).toBeUndefined();
  });
});

describe('a webhook that the API server refuses', () => {
  const timed = (timeoutSeconds: number, resource = 'servers') =>
    compiled(
      {
        timeoutSeconds,
        match: { apiGroups: [GROUP], resources: [resource] },
        defaults: [{ path: 'spec.tier', value: 'x' }],
        validate: { immutable: ['spec.rack'] },
      },
      { name: `${resource}-${timeoutSeconds}`, generation: 1 },
    );
  const isBad = ({ webhooks = [] }: LiveWebhookConfiguration) =>
    webhooks.some(({ rules }) => rules.some(({ resources }) => resources.includes('bad')));

  /** An API server that refuses some writes. Returns the number of dry runs. */
  const reconcileAgainst = async (
    refusal: (object: LiveWebhookConfiguration, dryRun: boolean) => ApiError | undefined,
  ) => {
    let dryRuns = 0;
    const judged =
      (write: Client['create']): Client['create'] =>
      async (kind, object, options) => {
        const dryRun = options?.dryRun === true;
        if (dryRun) dryRuns++;
        const error = refusal(object, dryRun);
        if (error !== undefined) throw error;
        return dryRun ? object : await write(kind, object);
      };
    const { create, replace } = cluster.client;
    await reconcile({ client: { create: judged(create), replace: judged(replace) } });
    return dryRuns;
  };
  const strict = () =>
    reconcileAgainst((object) => (isBad(object) ? new ApiError(422, 'the resource is bad') : undefined));
  const timeouts = () =>
    both().map((objects) => objects.read(NAME)?.webhooks?.map(({ timeoutSeconds }) => timeoutSeconds));
  const inBoth = (...seconds: readonly number[]) => [seconds, seconds];

  test('is left out, and its message is reported', async () => {
    policies = [timed(5), timed(9, 'bad'), timed(6)];
    await strict();
    expect(timeouts()).toEqual(inBoth(5, 6));
    expect([...refused.keys()].map((name) => name.split('.')[1])).toEqual(['mutate', 'validate']);
    expect([...refused.values()][0]).toContain('the resource is bad');
    await strict();
    expect(writes()).toBe(2);
  });

  test('does not keep deleted policies in the configurations', async () => {
    policies = [timed(5), timed(6)];
    await reconcile();
    policies = [timed(5), timed(9, 'bad')];
    await strict();
    expect(timeouts()).toEqual(inBoth(5));
  });

  test('leaves the version of it that is stored, and the webhook that it replaces, with the current CA bundle', async () => {
    policies = [timed(5), timed(6), timed(7)];
    await reconcile();
    caBundle = 'BBBB';
    policies = [timed(5), timed(6), timed(6, 'bad'), timed(8, 'bad')];
    awaited = [timed(7)];
    await strict();
    expect(timeouts()).toEqual(inBoth(5, 6, 7));
    expect(refused.size).toBe(4);
    for (const { name, clientConfig } of webhooksOf(validating()))
      expect(clientConfig).toMatchObject({
        caBundle: 'BBBB',
        service: { path: expect.stringMatching(`^/validate/.*${name.split('.')[0]}$`) as string },
      });
    policies = [timed(5), timed(6)];
    awaited = [];
    await strict();
    expect(timeouts()).toEqual(inBoth(5, 6));
    expect(refused.size).toBe(0);
  });

  test('is found among many with a few dry runs', async () => {
    policies = [...Array.from({ length: 25 }, (_, index) => timed(index + 1)), timed(30, 'bad')];
    expect(await strict()).toBeLessThan(30);
    expect(timeouts().map((each) => each?.length)).toEqual([25, 25]);
  });

  test('keeps no path of an earlier token, and no address of a laptop', async () => {
    policies = [timed(5), timed(6)];
    await reconcile();
    editWebhooks(toLaptop, ...both());
    pathToken = 'b'.repeat(32);
    policies = [timed(5), timed(6), timed(6, 'bad')];
    await strict();
    expect(paths()).toHaveLength(4);
    for (const path of paths()) expect(path).toMatch(/^\/(mutate|validate)\/b{32}\/fail-[56]s-/);
  });

  describe('only together with the others', () => {
    const atMostFive = (code = 500, message = 'etcdserver: request is too large') =>
      reconcileAgainst(({ webhooks = [] }, dryRun) =>
        !dryRun && webhooks.length > 5 ? new ApiError(code, message) : undefined,
      );
    const many = Array.from({ length: 9 }, (_, index) => timed(index + 1));

    test.each([
      ['etcd', 500, 'etcdserver: request is too large'],
      ['gRPC', 500, 'trying to send message larger than max (2317462 vs. 2097152)'],
      ['the API server', 413, 'Request entity too large: limit is 3145728'],
    ])('is left out if it is new, and the limit of %s is reported', async (_what, code, message) => {
      policies = [timed(9), timed(8)];
      await reconcile();
      policies = many;
      await atMostFive(code, message);
      expect(timeouts()).toEqual(inBoth(1, 2, 3, 8, 9));
      expect(refused.size).toBe(8);
      for (const why of refused.values()) expect(why).toContain(message);
      const before = writes();
      await atMostFive(code, message);
      expect(writes()).toBe(before);
    });

    test('changes nothing if even the installed ones are too large', async () => {
      policies = many.slice(0, 6);
      await reconcile();
      policies = many;
      caBundle = 'BBBB';
      await expect(atMostFive()).rejects.toThrow(/not all together: .*request is too large/);
      expect(timeouts()[0]).toHaveLength(6);
    });
  });

  test('other refusals of the whole configuration fail', async () => {
    await expect(reconcileAgainst(() => new ApiError(403, 'no'))).rejects.toThrow('no');
  });
});
