import { beforeEach, describe, expect, test } from 'vitest';
import type { JsonObject } from '../../json/json.ts';
import { mergeInto } from '../../json/merge-patch.ts';
import { caBundle } from '../../pki/authority/authority.ts';
import { base64, firstAuthority } from '../../../test/support/pki/fixtures.ts';
import type { BundleState } from '../../pki/injection/source.ts';
import { TARGET_KINDS, toTarget, type RawTarget, type TargetKind } from '../../pki/injection/target.ts';
import { joinCertificatePems } from '../../pki/x509/pem.ts';
import { createCluster, NEVER, silent, untilDone } from '../../../test/support/runtime/fixtures.ts';
import { createInjector, type InjectorContext } from './injector.ts';
import type { TargetState } from './target-store.ts';
import { WriteRefused } from '../write-refused.ts';

const start = new Date('2026-11-21T12:00:00Z');
const bundle = caBundle(await firstAuthority(start), start);
const otherBundle = caBundle(await firstAuthority(start), start);

const RESOURCE = { group: '', version: 'v1', resource: 'targets', kind: 'Target', namespaced: false };
const cluster = createCluster();
const { events } = cluster;
const objects = cluster.objects<RawTarget>(RESOURCE);
let states: (TargetState | undefined)[];
let source: BundleState;
let now: Date;
/** The error of the API server for each injection; undefined: it accepts the write. */
let refusal: string | undefined;
beforeEach(() => {
  refusal = undefined;
  cluster.reset();
  states = [];
  source = { kind: 'bundle', pem: bundle };
  now = start;
});

/** As the first reconcile of a new leader, and each further one. */
function injector(kind: TargetKind = TARGET_KINDS.validating, change: Partial<InjectorContext> = {}) {
  const reconcile = createInjector({
    kind,
    resource: { ...RESOURCE, kind: kind.kind },
    targets: {
      read: (key) => {
        const raw = objects.read(key);
        return raw === undefined ? undefined : toTarget(kind, raw, []);
      },
    },
    client: createTargetClient(),
    bundle: () => source,
    records: { report: (_kind, _key, state) => void states.push(state) },
    record: events.record,
    now: () => now,
    log: silent,
    ...change,
  });
  return () => reconcile('hooks', NEVER);
}

const pass = (ms: number) => (now = new Date(now.getTime() + ms));

/** A client that applies and patches `objects`: a minimal server-side apply merges webhooks by name. */
function createTargetClient(): InjectorContext['client'] {
  const inject = async <T>(name: string, { webhooks: wanted = [], ...patch }: RawTarget): Promise<T> => {
    if (refusal !== undefined) throw new WriteRefused(refusal);
    const live = objects.read(name) ?? {};
    const webhooks = live.webhooks?.map((webhook) => {
      const { clientConfig } = wanted.find((one) => one.name === webhook.name) ?? {};
      return { ...webhook, clientConfig: { ...webhook.clientConfig, ...clientConfig } };
    });
    const next = mergeInto(live as JsonObject, patch as JsonObject) as RawTarget;
    return (await objects.replace({ ...next, ...(webhooks && { webhooks }) })) as T;
  };
  return {
    apply: (_resource, object) => inject(object.metadata?.name ?? '', object),
    patchMerge: (_resource, { name }, patch) => inject(name, patch),
    patchJson: () => Promise.reject(new Error('no test hands fields back')),
  };
}

const ASKS = { 'gatehouse.dev/inject-cabundle': 'true' };
const service = { namespace: 'prod', name: 'hook' };
const viaService = (name: string, text?: string) => ({
  name,
  failurePolicy: 'Fail',
  clientConfig: { service, ...(text === undefined ? {} : { caBundle: base64(text) }) },
});
const hooks = (...webhooks: NonNullable<RawTarget['webhooks']>): RawTarget => ({
  metadata: { name: 'hooks', uid: 'u', annotations: ASKS },
  webhooks,
});
const bundlesOf = ({ webhooks = [] }: RawTarget = {}) =>
  webhooks.map(({ clientConfig }) => clientConfig.caBundle);

test.each([
  ['no webhooks', []],
  ['single webhook to fill', [viaService('a')]],
  ['multiple webhooks to fill', [viaService('a'), viaService('b', otherBundle)]],
])('service-ca TestWebhookCABundleInjectorSync: %s', async (_case, before) => {
  objects.add(hooks(...before));
  await injector()();
  expect(objects.read('hooks')).toMatchObject(hooks(...before.map(({ name }) => viaService(name, bundle))));
  expect(objects.writes()).toBe(before.length === 0 ? 0 : 1);
});

const metadata = { name: 'hooks', annotations: ASKS };
const viaWebhook = { strategy: 'Webhook', webhook: { clientConfig: { service } } };
const firstOf = (object: RawTarget) => bundlesOf(object)[0];

describe.each<[string, TargetKind, RawTarget, (object: RawTarget) => unknown]>([
  ['validating', TARGET_KINDS.validating, hooks(viaService('a')), firstOf],
  ['mutating', TARGET_KINDS.mutating, hooks(viaService('a')), firstOf],
  [
    'crdconversion',
    TARGET_KINDS.customResourceDefinition,
    { metadata, spec: { conversion: viaWebhook } },
    ({ spec }) => spec?.conversion?.webhook?.clientConfig?.caBundle,
  ],
  ['apiservice', TARGET_KINDS.apiService, { metadata, spec: { service } }, ({ spec }) => spec?.caBundle],
  ['configmap', TARGET_KINDS.configMap, { metadata, data: { theirs: 'x' } }, ({ data }) => data?.['ca.crt']],
])('OPA TestReconcileWebhook: %s', (name, kind, raw, bundleIn) => {
  const expected = name === 'configmap' ? bundle : base64(bundle);

  test('the bundle is written once (Knative conversion TestReconcile: stable), and restored when another client wipes it', async () => {
    objects.add(raw);
    const reconcile = injector(kind);
    await reconcile();
    expect(bundleIn(objects.read('hooks') ?? {})).toBe(expected);
    expect(await reconcile()).toEqual({ kind: 'await-change' });
    expect(objects.writes()).toBe(1);

    objects.edit('hooks', () => raw);
    await reconcile();
    expect(bundleIn(objects.read('hooks') ?? {})).toBe(expected);
    expect(events.reasons()).toEqual(['Injected']); // a restored bundle records no Event
    expect(states.at(-1)).toBe('current');
  });

  test.each(['before', 'after'] as const)('after a kill %s its write it converges', async (when) => {
    objects.add(raw);
    objects.interrupt(when);
    await untilDone(injector(kind), 'hooks');
    expect(bundleIn(objects.read('hooks') ?? {})).toBe(expected);
  });
});

test('service-ca TestBundlesWatcher_Start_FailsOnCABundleReadError, Knative conversion TestReconcile: no secret: without an authority nothing is written, and the target counts as stale', async () => {
  source = { kind: 'unknown' };
  objects.add(hooks(viaService('a')));
  expect(await injector()()).toEqual({ kind: 'await-change' });
  expect(objects.writes()).toBe(0);
  expect(states).toEqual(['stale']);
});

test('Knative conversion TestReconcile: update failure: a write conflict is a failure that is retried with the current object', async () => {
  objects.add(hooks(viaService('a'), viaService('b')));
  const stale = toTarget(TARGET_KINDS.validating, objects.read('hooks') ?? {}, []);
  objects.edit('hooks', () => hooks(viaService('a')));
  const overtaken = injector(undefined, { targets: { read: () => stale } });
  await expect(overtaken()).rejects.toMatchObject({ code: 409 });
  await injector()();
  expect(bundlesOf(objects.read('hooks'))).toEqual([base64(bundle)]);
});

test.each<[string, RawTarget | undefined]>([
  ['CRD does not exist', undefined],
  ['missing service reference: no webhook', { metadata, spec: { conversion: { strategy: 'Webhook' } } }],
  ['missing other stuff: no conversion', { metadata, spec: {} }],
])('Knative conversion TestReconcile: %s: nothing is written', async (_case, raw) => {
  if (raw !== undefined) objects.add(raw);
  await injector(TARGET_KINDS.customResourceDefinition)();
  expect(objects.writes()).toBe(0);
});

test('service-ca TestBundlesWatcher_ReloadCABundle_ReadError: an invalid request is reported once, never written, and cleared once it is fixed', async () => {
  source = { kind: 'unusable', message: 'Secret vault/ca does not exist' };
  objects.add(hooks(viaService('a')));
  const reconcile = injector();
  await reconcile();
  await reconcile();
  const { message } = source;
  expect(events.all).toMatchObject([{ type: 'Warning', reason: 'InvalidInjection', message }]);
  expect(objects.writes()).toBe(0);
  expect(states).toEqual(['invalid', 'invalid']);
  source = { kind: 'bundle', pem: bundle };
  await reconcile();
  expect(states.at(-1)).toBe('current');
});

test('a write that the API server refuses is reported with the remedy, retried every minute, and is no contention', async () => {
  objects.add(hooks(viaService('a')));
  refusal = '422 Invalid: too long. Correct the object.';
  const reconcile = injector();
  await expect(reconcile()).rejects.toThrow(refusal);
  expect(events.reasons()).toEqual([]); // not confirmed: the object may have changed
  pass(5_000);
  expect(await reconcile()).toEqual({ kind: 'requeue', at: new Date(start.getTime() + 65_000) });
  const message = `the CA bundle is not written: ${refusal}`;
  const regarding = { kind: 'ValidatingWebhookConfiguration', name: 'hooks' };
  expect(events.all).toMatchObject([{ regarding, type: 'Warning', reason: 'InjectionRefused', message }]);
  expect(states.at(-1)).toBe('stale');
  for (let round = 0; round < 20; round++) await reconcile();
  expect(events.reasons()).toHaveLength(1);
  pass(50 * 60_000); // before Kubernetes deletes the Event
  await reconcile();
  expect(events.reasons()).toHaveLength(2);
  refusal = undefined;
  await reconcile();
  expect(states.at(-1)).toBe('current');
});

test('a release is reported, even by a leader that found the bundle current', async () => {
  objects.add(hooks(viaService('a'), viaService('b')));
  await injector()();
  const reconcile = injector();
  await reconcile();
  const asking = (value: string | null) =>
    objects.patch('hooks', { metadata: { annotations: { 'gatehouse.dev/inject-cabundle': value } } });
  const message = (name: string) =>
    `Gatehouse stopped updating the CA bundle (${name}), and its current value remains`;
  asking('a');
  await reconcile();
  expect(events.all.at(-1)).toMatchObject({ reason: 'Released', message: message('b') });
  asking('');
  await reconcile();
  asking(null);
  await reconcile();
  await reconcile();
  expect(events.reasons()).toEqual(['Injected', 'Released', 'InvalidInjection', 'Released']);
  expect(events.all.at(-1)).toMatchObject({ message: message('a') });
});

describe('B3: contention', () => {
  test('is reported and slowed down, the injection continues, and it ends once the bundle has stayed', async () => {
    objects.add(hooks(viaService('a')));
    const reconcile = injector();
    for (let round = 0; round <= 10; round++) {
      await reconcile();
      objects.edit('hooks', () => hooks(viaService('a')));
    }
    expect(objects.writes()).toBe(11);
    expect(events.reasons()).not.toContain('CABundleContended');

    expect(await reconcile()).toEqual({ kind: 'requeue', at: new Date(start.getTime() + 1_000) });
    expect(events.reasons()).toContain('CABundleContended');
    expect(states.at(-1)).toBe('contended');
    pass(1_000);
    await reconcile();
    expect(objects.writes()).toBe(12);
    expect(states.at(-1)).toBe('contended');

    const kept = await reconcile();
    if (kept.kind !== 'requeue') throw new Error(`expected a requeue, not ${kept.kind}`);
    now = kept.at;
    expect(await reconcile()).toEqual({ kind: 'await-change' });
    expect(states.at(-1)).toBe('current');
  });

  test('service-ca TestBundlesWatcher_ReloadCABundle, OPA TestWebhookCARotation: a new bundle follows the old one without an Event, even under a new leader', async () => {
    objects.add(hooks(viaService('a')));
    const held = () => bundlesOf(objects.read('hooks'))[0];
    const reconcile = injector();
    await reconcile();
    source = { kind: 'bundle', pem: joinCertificatePems([otherBundle, bundle]) };
    await reconcile();
    expect(held()).toBe(base64(otherBundle + bundle));
    source = { kind: 'bundle', pem: otherBundle };
    await injector()();
    expect(held()).toBe(base64(otherBundle));
    expect(events.reasons()).toEqual(['Injected']);
  });

  /** The bundle changes 20 times within 20 seconds. */
  const alternate = async (annotations: Readonly<Record<string, string>>) => {
    objects.add({ ...hooks(viaService('a')), metadata: { name: 'hooks', uid: 'u', annotations } });
    const reconcile = injector();
    for (let round = 0; round < 20; round++) {
      source = { kind: 'bundle', pem: round % 2 === 0 ? bundle : otherBundle };
      await reconcile();
      pass(1_000);
    }
    return objects.writes();
  };

  test('a source that keeps changing causes no endless writes', async () => {
    expect(await alternate({ 'gatehouse.dev/inject-cabundle-from': 'vault/ca' })).toBeLessThanOrEqual(15);
    expect(events.reasons()).toContain('CABundleContended');
    expect(states.at(-1)).toBe('contended');
  });

  test('the bundle of the authority is never delayed', async () => {
    expect(await alternate(ASKS)).toBe(20);
  });
});

test('a bundle whose text some clients cannot read is written again, with one Event', async () => {
  objects.add(hooks(viaService('a')));
  const run = injector();
  await run();
  for (const damaged of [`# api: ${bundle}`, bundle.replaceAll('\n', ''), `\uFEFF${bundle}`]) {
    objects.add(hooks(viaService('a', damaged)));
    await run();
    await run();
    expect(bundlesOf(objects.read('hooks'))).toEqual([base64(bundle)]);
  }
  expect(events.reasons()).toEqual(['Injected', ...Array<string>(3).fill('BundleRepaired')]);
  objects.add(hooks(viaService('a', bundle.replaceAll('\n', '\r\n').trimEnd())));
  const writes = objects.writes();
  await run();
  expect(objects.writes()).toBe(writes);
});
