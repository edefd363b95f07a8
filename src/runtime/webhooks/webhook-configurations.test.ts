import { beforeEach, describe, expect, test } from 'vitest';

import { NO_RELEASES } from '../../admission/native/release.ts';
import type { CompiledPolicy } from '../../admission/policy/compile.ts';
import { rulesOf } from '../../admission/webhooks/installed-rules.ts';
import { DEV_URL_ANNOTATION, withDevSession } from '../../admission/webhooks/dev-session.ts';
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
import type { LiveWebhookConfiguration } from '../../admission/webhooks/dev-entries.ts';
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

const reconciler = (change: Partial<WebhookConfigurationsOptions> = {}) =>
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
    client: cluster.client,
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
const reconcile = () => reconciler()(NAME, NEVER);

const mutating = () => live.mutatingwebhookconfigurations;
const validating = () => live.validatingwebhookconfigurations;
const writes = () => mutating().writes() + validating().writes();

test('both configurations are created', async () => {
  expect(await reconcile()).toEqual({ kind: 'requeue', at: new Date('2026-11-21T12:01:00Z') });
  expect(mutating().read(NAME)).toMatchObject({
    kind: 'MutatingWebhookConfiguration',
    metadata: { labels: { 'velero.io/exclude-from-backup': 'true' } },
    webhooks: [{ clientConfig: { caBundle: 'AAAA' }, rules: [{ resources: ['servers'] }] }],
  });
  expect(validating().read(NAME)?.webhooks).toHaveLength(1);
});

test.each(['mutatingwebhookconfigurations', 'validatingwebhookconfigurations'])(
  'while %s cannot be read, the other one is written',
  async (broken) => {
    const away = new Error('away');
    const client = {
      ...cluster.client,
      get: (kind: Resource, ...rest: [NamedRef]) =>
        kind.resource === broken ? Promise.reject(away) : cluster.client.get(kind, ...rest),
    } as WebhookConfigurationsOptions['client'];
    await expect(reconciler({ client })(NAME, NEVER)).rejects.toBe(away);
    expect(writes()).toBe(1);
  },
);

test('running twice writes nothing the second time', async () => {
  await reconcile();
  await reconcile();
  expect(writes()).toBe(2);
});

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
  const paths = [mutating(), validating()].flatMap((objects) =>
    (objects.read(NAME)?.webhooks ?? []).map(({ clientConfig }) => clientConfig.service?.path),
  );
  expect(paths).toContainEqual(expect.stringMatching(/^\/mutate\/0{32}\/fail-/));
});

test('a configuration without policies is empty, and equals one that the API server returns without a webhooks field', async () => {
  policies = [];
  await reconcile();
  mutating().edit(NAME, ({ apiVersion, kind, metadata }) => ({
    apiVersion: apiVersion ?? '',
    kind: kind ?? '',
    metadata: metadata ?? {},
  }));
  expect(mutating().read(NAME)).not.toHaveProperty('webhooks');
  await reconcile();
  expect(writes()).toBe(2);
});

describe('a configuration is repaired', () => {
  test.each<[string, (object: LiveWebhookConfiguration) => LiveWebhookConfiguration]>([
    ['whose webhooks are missing', (object) => ({ ...object, webhooks: [] })],
    [
      'that was set to ignore failures',
      (object) => ({
        ...object,
        webhooks: (object.webhooks ?? []).map((webhook) => ({ ...webhook, failurePolicy: 'Ignore' })),
      }),
    ],
    [
      'whose caBundle was wiped',
      (object) => ({
        ...object,
        webhooks: (object.webhooks ?? []).map((webhook) => ({
          ...webhook,
          clientConfig: { ...webhook.clientConfig, caBundle: '' },
        })),
      }),
    ],
    ['whose labels are missing', (object) => ({ ...object, metadata: { ...object.metadata, labels: {} } })],
  ])('%s', async (_what, spoil) => {
    await reconcile();
    const healthy = validating().read(NAME);
    validating().edit(NAME, spoil);
    await reconcile();
    expect(validating().read(NAME)).toEqual({
      ...healthy,
      metadata: { ...healthy?.metadata, resourceVersion: expect.any(String) as string },
    });
    expect(mutating().writes()).toBe(1);
  });

  test('and the labels and annotations of other clients stay', async () => {
    await reconcile();
    validating().edit(NAME, (object) => ({
      ...object,
      metadata: {
        ...object.metadata,
        labels: { ...object.metadata?.labels, team: 'a' },
        annotations: { note: 'b' },
      },
    }));
    await reconcile();
    expect(validating().writes()).toBe(1);

    caBundle = 'BBBB';
    await reconcile();
    expect(validating().read(NAME)).toMatchObject({
      metadata: { labels: { team: 'a' }, annotations: { note: 'b' } },
      webhooks: [{ clientConfig: { caBundle: 'BBBB' } }],
    });
  });

  test('when the policies change', async () => {
    await reconcile();
    policies = [];
    await reconcile();
    expect(validating().read(NAME)?.webhooks).toEqual([]);
  });
});

describe('the owner', () => {
  const ownersOf = () =>
    [mutating(), validating()].map((objects) => objects.read(NAME)?.metadata?.ownerReferences);

  test('is the role of the installation, with its current uid', async () => {
    await reconcile();
    expect(ownersOf()).toEqual([[installationOwner('1')], [installationOwner('1')]]);
    owner = installationOwner('2');
    await reconcile();
    await reconcile();
    expect(ownersOf()).toEqual([[installationOwner('2')], [installationOwner('2')]]);
    expect(writes()).toBe(4);
  });

  test('stays when the role goes: the garbage collector deletes the configurations', async () => {
    await reconcile();
    owner = undefined;
    caBundle = 'BBBB';
    await reconcile();
    expect(ownersOf()).toEqual([[installationOwner('1')], [installationOwner('1')]]);
  });

  test('is nobody without the role, and the configurations are written', async () => {
    owner = undefined;
    await reconcile();
    expect(ownersOf()).toEqual([undefined, undefined]);
  });

  test('is left out if the API server refuses it, and the rest is written', async () => {
    await reconcile();
    owner = installationOwner('2');
    caBundle = 'BBBB';
    const refusing = {
      ...installation,
      withOwner: ((_by, write) => write(undefined)) as typeof installation.withOwner,
    };
    await reconciler({ installation: refusing })(NAME, NEVER);
    expect(ownersOf()).toEqual([[installationOwner('1')], [installationOwner('1')]]);
    expect(validating().read(NAME)).toMatchObject({ webhooks: [{ clientConfig: { caBundle: 'BBBB' } }] });
  });
});

describe('while somebody removes Gatehouse', () => {
  beforeEach(() => {
    obstacle = 'the Service is gone';
  });

  test('nothing is created, and users learn why; afterwards it is', async () => {
    expect(await reconcile()).toEqual({ kind: 'requeue', at: new Date(now.getTime() + 1_000) });
    expect([writes(), waiting]).toEqual([0, obstacle]);
    obstacle = undefined;
    await reconcile();
    expect([writes(), waiting]).toEqual([2, undefined]);
  });

  test('what exists is still updated', async () => {
    obstacle = undefined;
    await reconcile();
    obstacle = 'the Service is gone';
    mutating().remove(NAME);
    caBundle = 'BBBB';
    await reconcile();
    expect(mutating().read(NAME)).toBeUndefined();
    expect(validating().read(NAME)).toMatchObject({ webhooks: [{ clientConfig: { caBundle: 'BBBB' } }] });
    expect(waiting).toBe(obstacle);
  });
});

test('a write that meets a conflict fails', async () => {
  await reconcile();
  const stale = validating().read(NAME);
  validating().edit(NAME, (object) => ({ ...object, webhooks: [] }));
  const overtaken = reconciler({
    client: {
      ...cluster.client,
      get: <T extends KubeObject>(kind: Resource, ref: NamedRef) =>
        kind === validatingWebhookConfigurations && stale !== undefined
          ? Promise.resolve({ ...stale, webhooks: [] } as unknown as T) // the requested kind
          : cluster.client.get<T>(kind, ref),
    },
  });
  await expect(overtaken(NAME, NEVER)).rejects.toMatchObject({ code: 409 });
  await reconcile();
});

describe('killed around a write it converges:', () => {
  test.each([
    ['before', 'mutatingwebhookconfigurations', 'creation', 3],
    ['after', 'mutatingwebhookconfigurations', 'creation', 2],
    ['before', 'validatingwebhookconfigurations', 'creation', 3],
    ['after', 'validatingwebhookconfigurations', 'creation', 2],
    ['before', 'mutatingwebhookconfigurations', 'update', 3],
    ['after', 'mutatingwebhookconfigurations', 'update', 2],
    ['before', 'validatingwebhookconfigurations', 'update', 3],
    ['after', 'validatingwebhookconfigurations', 'update', 2],
  ] as const)('%s %s, %s', async (when, resource, kind, expected) => {
    if (kind === 'update') {
      await reconcile();
      caBundle = 'BBBB';
    }
    const before = writes();
    live[resource].interrupt(when);
    await expect(reconcile()).rejects.toThrow('connection broke');
    await untilDone(reconciler(), NAME);
    expect(writes() - before).toBe(expected);
    for (const objects of Object.values(live)) {
      expect(objects.read(NAME)).toMatchObject({ webhooks: [{ clientConfig: { caBundle } }] });
    }
  });
});

describe('a configuration that a laptop has borrowed', () => {
  const session = { id: 'a', holder: 'eva@laptop', url: 'https://eva:8443', created: false };
  const lend = (expiresAt: Date) => {
    for (const objects of Object.values(live))
      objects.edit(NAME, (object) => ({
        ...object,
        metadata: withDevSession(object.metadata, { ...session, expiresAt }),
        webhooks: (object.webhooks ?? []).map((webhook) => ({
          ...webhook,
          clientConfig: {
            url: `https://eva:8443${webhook.clientConfig.service?.path ?? ''}`,
            caBundle: 'EVA=',
          },
        })),
      }));
  };
  const end = new Date(now.getTime() + 30_000);

  beforeEach(async () => {
    await reconcile();
    lend(end);
  });

  test('is left alone, also when the bundle changes, and reconciled when the session is over', async () => {
    caBundle = 'BBBB';
    expect(await reconcile()).toEqual({ kind: 'requeue', at: new Date(end.getTime() + 100) });
    expect(writes()).toBe(2);
  });

  test('does not report policies that the laptop has not installed yet', async () => {
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
    expect(validating().read(NAME)?.webhooks?.[0]?.clientConfig.url).toBeUndefined();
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
  const refusing = async <T extends KubeObject>(
    object: T,
    dryRun: boolean | undefined,
    write: () => Promise<T>,
  ) => {
    if (isBad(object)) throw new ApiError(422, 'the resource is bad');
    return dryRun === true ? object : await write();
  };
  const strict = () =>
    reconciler({
      client: {
        ...cluster.client,
        create: (kind, object, options) =>
          refusing(object, options?.dryRun, () => cluster.client.create(kind, object)),
        replace: (kind, object, options) =>
          refusing(object, options?.dryRun, () => cluster.client.replace(kind, object)),
      },
    })(NAME, NEVER);
  const timeouts = () =>
    [validating(), mutating()].map((objects) =>
      objects.read(NAME)?.webhooks?.map(({ timeoutSeconds }) => timeoutSeconds),
    );

  test('is left out, and its message is reported', async () => {
    policies = [timed(5), timed(9, 'bad'), timed(6)];
    await strict();
    expect(timeouts()).toEqual([
      [5, 6],
      [5, 6],
    ]);
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
    expect(timeouts()).toEqual([[5], [5]]);
  });

  test('leaves the version of it that is stored, and the webhook that it replaces, with the current CA bundle', async () => {
    policies = [timed(5), timed(6), timed(7)];
    await reconcile();
    caBundle = 'BBBB';
    policies = [timed(5), timed(6), timed(6, 'bad'), timed(8, 'bad')];
    awaited = [timed(7)];
    await strict();
    expect(timeouts()).toEqual([
      [5, 6, 7],
      [5, 6, 7],
    ]);
    expect(refused.size).toBe(4);
    for (const { name, clientConfig } of validating().read(NAME)?.webhooks ?? [])
      expect(clientConfig).toMatchObject({
        caBundle: 'BBBB',
        service: { path: expect.stringMatching(`^/validate/.*${name.split('.')[0]}$`) as string },
      });
    policies = [timed(5), timed(6)];
    awaited = [];
    await strict();
    expect(timeouts()).toEqual([
      [5, 6],
      [5, 6],
    ]);
    expect(refused.size).toBe(0);
  });

  test('is found among many with a few dry runs', async () => {
    policies = [...Array.from({ length: 25 }, (_, index) => timed(index + 1)), timed(30, 'bad')];
    let dryRuns = 0;
    await reconciler({
      client: {
        ...cluster.client,
        create: (kind, object, options) => {
          if (options?.dryRun === true) dryRuns++;
          return refusing(object, options?.dryRun, () => cluster.client.create(kind, object));
        },
      },
    })(NAME, NEVER);
    expect(timeouts().map((each) => each?.length)).toEqual([25, 25]);
    expect(dryRuns).toBeLessThan(30);
  });

  test('keeps no path of an earlier token, and no address of a laptop', async () => {
    policies = [timed(5), timed(6)];
    await reconcile();
    for (const objects of Object.values(live))
      objects.edit(NAME, (object) => ({
        ...object,
        webhooks: (object.webhooks ?? []).map((webhook) => ({
          ...webhook,
          clientConfig: { url: `https://eva:8443${webhook.clientConfig.service?.path ?? ''}` },
        })),
      }));
    pathToken = 'b'.repeat(32);
    policies = [timed(5), timed(6), timed(6, 'bad')];
    await strict();
    const paths = [validating(), mutating()].flatMap((objects) =>
      (objects.read(NAME)?.webhooks ?? []).map(({ clientConfig }) => clientConfig.service?.path),
    );
    expect(paths).toHaveLength(4);
    for (const path of paths) expect(path).toMatch(/^\/(mutate|validate)\/b{32}\/fail-[56]s-/);
  });

  describe('only together with the others', () => {
    const storing = (most: number, code = 500, message = 'etcdserver: request is too large') => {
      const limited = <T extends KubeObject>(
        object: T,
        dryRun: boolean | undefined,
        store: () => Promise<T>,
      ) => {
        const { webhooks = [] }: LiveWebhookConfiguration = object;
        if (dryRun === true) return Promise.resolve(object);
        return webhooks.length > most ? Promise.reject(new ApiError(code, message)) : store();
      };
      return reconciler({
        client: {
          ...cluster.client,
          create: (kind, object, options) =>
            limited(object, options?.dryRun, () => cluster.client.create(kind, object)),
          replace: (kind, object, options) =>
            limited(object, options?.dryRun, () => cluster.client.replace(kind, object)),
        },
      })(NAME, NEVER);
    };
    const many = Array.from({ length: 9 }, (_, index) => timed(index + 1));

    test.each([
      ['etcd', 500, 'etcdserver: request is too large'],
      ['gRPC', 500, 'trying to send message larger than max (2317462 vs. 2097152)'],
      ['the API server', 413, 'Request entity too large: limit is 3145728'],
    ])('is left out if it is new, and the limit of %s is reported', async (_what, code, message) => {
      policies = [timed(9), timed(8)];
      await reconcile();
      policies = many;
      await storing(5, code, message);
      for (const installed of timeouts()) expect(installed).toEqual([1, 2, 3, 8, 9]);
      expect(refused.size).toBe(8);
      for (const why of refused.values()) expect(why).toContain(message);
      const before = writes();
      await storing(5, code, message);
      expect(writes()).toBe(before);
    });

    test('changes nothing if even the installed ones are too large', async () => {
      policies = many.slice(0, 6);
      await reconcile();
      policies = many;
      caBundle = 'BBBB';
      await expect(storing(5)).rejects.toThrow(/not all together: .*request is too large/);
      expect(timeouts()[0]).toHaveLength(6);
    });
  });

  test('other refusals of the whole configuration fail', async () => {
    const write = () => Promise.reject(new ApiError(403, 'no'));
    await expect(reconciler({ client: { ...cluster.client, create: write } })(NAME, NEVER)).rejects.toThrow(
      'no',
    );
  });
});
