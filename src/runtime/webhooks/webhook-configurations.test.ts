import { beforeEach, describe, expect, test } from 'vitest';
import { NO_RELEASES } from '../../admission/native/release.ts';
import type { CompiledPolicy } from '../../admission/policy/compile.ts';
import { rulesOf } from '../../admission/webhooks/webhook-configurations.ts';
import {
  withDevSession,
  type LiveWebhook,
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
  type Objects,
} from '../../../test/support/runtime/fixtures.ts';
import { DEV_URL_ANNOTATION } from '../../admission/webhooks/webhook.ts';
import { installationOwner } from '../../admission/webhooks/installation-owner.ts';
import { mutatingWebhookConfigurations, validatingWebhookConfigurations } from '../../kube/well-known.ts';
import { createWebhookConfigurationsReconciler } from './webhook-configurations.ts';

const NAME = 'gatehouse';
const now = new Date('2026-11-21T12:00:00Z');
const tier = compiled({ defaults: [{ path: 'spec.tier', value: 'standard' }] });
const atStart = {
  policies: [tier] as readonly CompiledPolicy[],
  awaited: [] as readonly CompiledPolicy[],
  caBundle: 'AAAA' as string | undefined,
  pathToken: '' as string | undefined,
  owner: installationOwner('1'),
  serverNow: now,
};

const cluster = createCluster();
const mutating = cluster.objects<LiveWebhookConfiguration>(mutatingWebhookConfigurations);
const validating = cluster.objects<LiveWebhookConfiguration>(validatingWebhookConfigurations);
let given: typeof atStart;
let refused: ReadonlyMap<string, string>;

beforeEach(() => {
  cluster.reset();
  given = { ...atStart };
  refused = new Map();
});

type Client = Parameters<typeof createWebhookConfigurationsReconciler>[0]['client'];

const service = { namespace: OWN_NAMESPACE, name: 'gatehouse', port: 443 };
const reconcile = (client: Partial<Client> = {}) =>
  createWebhookConfigurationsReconciler({
    handlers: [],
    releaseOf: NO_RELEASES,
    policies: () => given.policies,
    caBundle: () => given.caBundle,
    pathToken: () => given.pathToken,
    target: { service, ownNamespace: OWN_NAMESPACE, protectsOwnKinds: false },
    client: { ...cluster.client, ...client },
    windows: { list: () => [] },
    detectors: { list: () => [] },
    awaited: () => rulesOf(given.awaited),
    waitsFor: () => Promise.resolve(undefined),
    installation: {
      owner: () => Promise.resolve(given.owner),
      obstacle: () => Promise.resolve(undefined),
      withOwner: (by, write) => write(by),
    },
    onWaiting: () => undefined,
    onRefused: (next) => void (refused = next),
    serverNow: () => given.serverNow,
    log: silent,
  })(NAME, NEVER);

const both = [validating, mutating];
const writes = () => mutating.writes() + validating.writes();
const webhooksOf = (objects: Objects<LiveWebhookConfiguration>) => objects.read(NAME)?.webhooks ?? [];
const paths = () => both.flatMap(webhooksOf).map(({ clientConfig }) => clientConfig.service?.path);
/** Another client changes each webhook. */
const edit = (objects: Objects<LiveWebhookConfiguration>, change: (webhook: LiveWebhook) => LiveWebhook) => {
  objects.edit(NAME, (object) => ({ ...object, webhooks: (object.webhooks ?? []).map(change) }));
};
/** As `gatehouse dev` does: the webhooks call a laptop. */
const toLaptop = (webhook: LiveWebhook): LiveWebhook => ({
  ...webhook,
  clientConfig: { url: `https://eva:8443${webhook.clientConfig.service?.path ?? ''}`, caBundle: 'EVA=' },
});
const withBundle = (bundle = 'BBBB') => ({ webhooks: [{ clientConfig: { caBundle: bundle } }] });

test('both configurations are created once', async () => {
  expect(await reconcile()).toEqual({ kind: 'requeue', at: new Date('2026-11-21T12:01:00Z') });
  expect(mutating.read(NAME)).toMatchObject({
    kind: 'MutatingWebhookConfiguration',
    metadata: { labels: { 'velero.io/exclude-from-backup': 'true' } },
    webhooks: [{ clientConfig: { caBundle: 'AAAA' }, rules: [{ resources: ['servers'] }] }],
  });
  expect(webhooksOf(validating)).toHaveLength(1);
  await reconcile();
  expect(writes()).toBe(2);
});

test.each(['mutatingwebhookconfigurations', 'validatingwebhookconfigurations'])(
  'while %s cannot be read, the other one is written',
  async (broken) => {
    const away = new Error('away');
    const get: Client['get'] = (kind, ref) =>
      kind.resource === broken ? Promise.reject(away) : cluster.client.get(kind, ref);
    await expect(reconcile({ get })).rejects.toBe(away);
    expect(writes()).toBe(1);
  },
);

test.each(['caBundle', 'pathToken'] as const)('without a %s nothing is written', async (missing) => {
  given[missing] = undefined;
  expect(await reconcile()).toMatchObject({ kind: 'requeue' });
  expect(writes()).toBe(0);
});

test('a configuration without policies is empty, and equals one that the API server returns without a webhooks field', async () => {
  given.policies = [];
  await reconcile();
  mutating.patch(NAME, { webhooks: null });
  await reconcile();
  expect(mutating.read(NAME)).not.toHaveProperty('webhooks');
  expect(writes()).toBe(2);
});

describe('a configuration is repaired', () => {
  test.each<[string, () => void]>([
    ['that ignores failures', () => edit(validating, (webhook) => ({ ...webhook, failurePolicy: 'Ignore' }))],
    ['without labels', () => validating.patch(NAME, { metadata: { labels: null } })],
  ])('%s', async (_what, spoil) => {
    await reconcile();
    const healthy = validating.read(NAME);
    spoil();
    await reconcile();
    const metadata = { ...healthy?.metadata, resourceVersion: expect.any(String) as string };
    expect(validating.read(NAME)).toEqual({ ...healthy, metadata });
    expect(mutating.writes()).toBe(1);
  });

  test('and the labels and annotations of other clients stay', async () => {
    await reconcile();
    const metadata = { labels: { team: 'a' }, annotations: { note: 'b' } };
    validating.patch(NAME, { metadata });
    await reconcile();
    expect(validating.writes()).toBe(1);
    given.caBundle = 'BBBB';
    await reconcile();
    expect(validating.read(NAME)).toMatchObject({ metadata, ...withBundle() });
  });
});

test.each([
  ['before', 'creation', 3],
  ['after', 'creation', 2],
  ['before', 'update', 3],
  ['after', 'update', 2],
] as const)('killed %s the %s it converges', async (when, kind, expected) => {
  if (kind === 'update') await reconcile();
  given.caBundle = 'BBBB';
  const before = writes();
  mutating.interrupt(when);
  await expect(reconcile()).rejects.toThrow('connection broke');
  await reconcile();
  expect(writes() - before).toBe(expected);
  for (const objects of both) expect(objects.read(NAME)).toMatchObject(withBundle());
});

test('a configuration that a laptop has borrowed names the Service again, once, when it claims more time than a session can have', async () => {
  await reconcile();
  const session = { id: 'a', holder: 'eva@laptop', url: 'https://eva:8443', created: false };
  for (const objects of both) {
    edit(objects, toLaptop);
    const expiresAt = new Date('2099-01-01T00:00:00Z');
    const metadata = withDevSession(objects.read(NAME)?.metadata, { ...session, expiresAt });
    objects.edit(NAME, (object) => ({ ...object, metadata }));
  }
  await reconcile();
  await reconcile();
  expect(writes()).toBe(4);
  for (const objects of both) {
    expect(objects.read(NAME)?.metadata?.annotations?.[DEV_URL_ANNOTATION]).toBeUndefined();
    expect(webhooksOf(objects)).toMatchObject([{ clientConfig: { service: { name: 'gatehouse' } } }]);
  }
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
    await reconcile({ create: judged(create), replace: judged(replace) });
    return dryRuns;
  };
  const bad = new ApiError(422, 'the resource is bad');
  const strict = () => reconcileAgainst((object) => (isBad(object) ? bad : undefined));
  const timeouts = () => both.map((one) => webhooksOf(one).map(({ timeoutSeconds }) => timeoutSeconds));
  const inBoth = (...seconds: readonly number[]) => [seconds, seconds];

  test('is left out, found among many with a few dry runs, and its message is reported', async () => {
    const good = Array.from({ length: 25 }, (_, index) => index + 1);
    given.policies = [...good.map((seconds) => timed(seconds)), timed(30, 'bad')];
    expect(await strict()).toBeLessThan(30);
    expect(timeouts().map(({ length }) => length)).toEqual([25, 25]);
    expect([...refused.keys()].map((name) => name.split('.')[1])).toEqual(['mutate', 'validate']);
    expect([...refused.values()][0]).toContain('the resource is bad');
    await strict();
    expect(writes()).toBe(2);
  });

  test('leaves the version of it that is stored, and the webhook that it replaces, with the current CA bundle', async () => {
    given.policies = [timed(5), timed(6), timed(7)];
    await reconcile();
    given.caBundle = 'BBBB';
    given.policies = [timed(5), timed(6), timed(6, 'bad'), timed(8, 'bad')];
    given.awaited = [timed(7)];
    await strict();
    expect(timeouts()).toEqual(inBoth(5, 6, 7));
    expect(refused.size).toBe(4);
    for (const { name, clientConfig } of webhooksOf(validating))
      expect(clientConfig).toMatchObject({
        caBundle: 'BBBB',
        service: { path: expect.stringMatching(`^/validate/.*${name.split('.')[0]}$`) as string },
      });
    given = { ...given, policies: [timed(5), timed(6)], awaited: [] };
    await strict();
    expect(timeouts()).toEqual(inBoth(5, 6));
    expect(refused.size).toBe(0);
  });

  test('keeps no path of an earlier token, and no address of a laptop', async () => {
    given.policies = [timed(5), timed(6)];
    await reconcile();
    for (const objects of both) edit(objects, toLaptop);
    given.pathToken = 'b'.repeat(32);
    given.policies = [timed(5), timed(6), timed(6, 'bad')];
    await strict();
    expect(paths()).toHaveLength(4);
    for (const path of paths()) expect(path).toMatch(/^\/(mutate|validate)\/b{32}\/fail-[56]s-/);
  });

  const atMostFive = (code = 500, message = 'etcdserver: request is too large') =>
    reconcileAgainst(({ webhooks = [] }, dryRun) =>
      !dryRun && webhooks.length > 5 ? new ApiError(code, message) : undefined,
    );
  const many = Array.from({ length: 9 }, (_, index) => timed(index + 1));

  test.each([
    ['etcd', 500, 'etcdserver: request is too large'],
    ['gRPC', 500, 'trying to send message larger than max (2317462 vs. 2097152)'],
    ['the API server', 413, 'Request entity too large: limit is 3145728'],
  ])(
    'together with the others is left out if it is new, and the limit of %s is reported',
    async (_what, ...limit) => {
      given.policies = [timed(9), timed(8)];
      await reconcile();
      given.policies = many;
      await atMostFive(...limit);
      expect(timeouts()).toEqual(inBoth(1, 2, 3, 8, 9));
      expect(refused.size).toBe(8);
      for (const why of refused.values()) expect(why).toContain(limit[1]);
      const before = writes();
      await atMostFive(...limit);
      expect(writes()).toBe(before);
    },
  );

  test('changes nothing if even the installed ones are too large together', async () => {
    given.policies = many.slice(0, 6);
    await reconcile();
    given = { ...given, policies: many, caBundle: 'BBBB' };
    await expect(atMostFive()).rejects.toThrow(/not all together: .*request is too large/);
    expect(timeouts()[0]).toHaveLength(6);
  });
});
