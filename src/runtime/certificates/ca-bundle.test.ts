import { beforeEach, expect, test } from 'vitest';
import { configMaps as CONFIG_MAPS } from '../../kube/well-known.ts';
import { ApiError } from '../../kube/api-error.ts';
import { caBundle } from '../../pki/authority/authority.ts';
import { firstAuthority } from '../../../test/support/pki/fixtures.ts';
import {
  createCaBundleReconciler,
  readPublishedBundles,
  type CaBundleContext,
  type ConfigMap,
} from './ca-bundle.ts';
import {
  containing,
  createCluster,
  createEvents,
  NEVER,
  OWN_NAMESPACE,
  silent,
  untilDone,
  type Cluster,
  type Objects,
} from '../../../test/support/runtime/fixtures.ts';

const now = new Date('2026-11-21T12:00:00Z');
const NAME = 'gatehouse-cabundle';
const KEY = `${OWN_NAMESPACE}/${NAME}`;

let cluster: Cluster;
let configMaps: Objects<ConfigMap>;
let bundle: string | undefined;
let events: ReturnType<typeof createEvents>;

beforeEach(() => {
  cluster = createCluster();
  events = createEvents();
  configMaps = cluster.objects(CONFIG_MAPS);
  bundle = 'roots of today';
});

const reconciler = (change: Partial<CaBundleContext> = {}) =>
  createCaBundleReconciler({
    namespace: OWN_NAMESPACE,
    bundle: () => bundle,
    client: cluster.client,
    record: events.record,
    now: () => now,
    log: silent,
    ...change,
  });

const publish = () => reconciler()(NAME, NEVER);

test('the bundle is published once in a ConfigMap that is excluded from backups, and checked every minute', async () => {
  const at = new Date('2026-11-21T12:01:00Z');
  expect(await publish()).toEqual({ kind: 'requeue', at });
  expect(configMaps.read(KEY)).toMatchObject({
    kind: 'ConfigMap',
    metadata: { labels: { 'velero.io/exclude-from-backup': 'true' } },
    data: { 'ca.crt': 'roots of today' },
  });
  await publish();
  expect(configMaps.writes()).toBe(1);
});

test('a new bundle is published, and the data of other clients stays', async () => {
  const theirs = { labels: { team: 'a' }, annotations: { note: 'b' } };
  configMaps.add({
    metadata: { namespace: OWN_NAMESPACE, name: NAME, ...theirs },
    data: { 'other.crt': 'c' },
  });
  await publish();
  bundle = 'roots of tomorrow';
  await publish();
  expect(configMaps.read(KEY)).toMatchObject({ metadata: theirs });
  expect(configMaps.read(KEY)?.data).toEqual({ 'other.crt': 'c', 'ca.crt': 'roots of tomorrow' });
});

test.each([
  ['before', 'creation', 2],
  ['after', 'creation', 1],
  ['before', 'update', 2],
  ['after', 'update', 1],
] as const)('after a kill %s its %s it converges', async (when, write, writes) => {
  if (write === 'update') configMaps.add({ metadata: { namespace: OWN_NAMESPACE, name: NAME }, data: {} });
  configMaps.interrupt(when);
  await untilDone(reconciler(), NAME);
  expect(configMaps.read(KEY)?.data).toEqual({ 'ca.crt': 'roots of today' });
  expect(configMaps.writes()).toBe(writes);
});

test('text that some clients cannot read is written again, with one Event', async () => {
  bundle = caBundle(await firstAuthority(now), now);
  const folded = bundle.replaceAll('\n', '');
  configMaps.add({
    metadata: { namespace: OWN_NAMESPACE, name: NAME, uid: 'u' },
    data: { 'ca.crt': folded },
  });
  await publish();
  await publish();
  expect(configMaps.read(KEY)?.data).toEqual({ 'ca.crt': bundle });
  expect(events.all).toEqual([
    expect.objectContaining({
      type: 'Warning',
      reason: 'BundleRepaired',
      regarding: expect.objectContaining({ kind: 'ConfigMap', name: NAME, uid: 'u' }) as object,
    }),
  ]);
});

test('a ConfigMap that the API server does not change gets one Event, with the cause', async () => {
  const data = { 'ca.crt': 'old' };
  configMaps.add({ metadata: { namespace: OWN_NAMESPACE, name: NAME, uid: 'u' }, data, immutable: true });
  const status = { message: 'field is immutable when `immutable` is set' };
  const replace = () => Promise.reject(new ApiError({ method: 'PUT', path: '/' }, { code: 422, status }));
  let time = now;
  const reconcile = reconciler({ client: { ...cluster.client, replace }, now: () => time });
  await expect(reconcile(NAME, NEVER)).rejects.toThrow('immutable');
  for (let minute = 0; minute < 3; minute++) {
    time = new Date(time.getTime() + 60_000);
    await reconcile(NAME, NEVER);
  }
  expect(events.all).toHaveLength(1);
  expect(events.all[0]).toMatchObject({
    reason: 'WriteRefused',
    message: containing('it is immutable. Delete it, and Gatehouse creates it again'),
    regarding: { name: NAME, uid: 'u' },
  });
  const [published] = await readPublishedBundles(cluster.client, OWN_NAMESPACE, NEVER);
  expect(published).toMatchObject({ target: `ConfigMap ${KEY}`, cause: containing('it is immutable') });
});
