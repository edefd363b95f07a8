import { beforeEach, expect, test } from 'vitest';
import { configMaps as CONFIG_MAPS } from '../../kube/well-known.ts';
import { caBundle } from '../../pki/authority/authority.ts';
import { firstAuthority } from '../../../test/support/pki/fixtures.ts';
import { createCaBundleReconciler, readPublishedBundles, type ConfigMap } from './ca-bundle.ts';
import {
  ApiError,
  containing,
  createCluster,
  NEVER,
  OWN_NAMESPACE,
  silent,
  untilDone,
} from '../../../test/support/runtime/fixtures.ts';

const now = new Date('2026-11-21T12:00:00Z');
const NAME = 'gatehouse-cabundle';
const KEY = `${OWN_NAMESPACE}/${NAME}`;
/** Another client has written it. */
const add = (data: NonNullable<ConfigMap['data']>, metadata: object = {}, immutable = false) =>
  configMaps.add({
    metadata: { namespace: OWN_NAMESPACE, name: NAME, uid: 'u', ...metadata },
    data,
    immutable,
  });

const { client, objects, events, reset } = createCluster();
const configMaps = objects<ConfigMap>(CONFIG_MAPS);
let bundle: string | undefined;

beforeEach(() => {
  reset();
  bundle = 'roots of today';
});

const reconciler = (change: Partial<Parameters<typeof createCaBundleReconciler>[0]> = {}) =>
  createCaBundleReconciler({
    namespace: OWN_NAMESPACE,
    bundle: () => bundle,
    client,
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
  add({ 'other.crt': 'c' }, theirs);
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
  if (write === 'update') add({});
  configMaps.interrupt(when);
  await untilDone(reconciler(), NAME);
  expect(configMaps.read(KEY)?.data).toEqual({ 'ca.crt': 'roots of today' });
  expect(configMaps.writes()).toBe(writes);
});

test('text that some clients cannot read is written again, with one Event', async () => {
  bundle = caBundle(await firstAuthority(now), now);
  add({ 'ca.crt': bundle.replaceAll('\n', '') });
  await publish();
  await publish();
  expect(configMaps.read(KEY)?.data).toEqual({ 'ca.crt': bundle });
  const regarding = { kind: 'ConfigMap', name: NAME, uid: 'u' };
  expect(events.all).toMatchObject([{ type: 'Warning', reason: 'BundleRepaired', regarding }]);
});

test('a ConfigMap that the API server does not change gets one Event, with the cause', async () => {
  add({ 'ca.crt': 'old' }, {}, true);
  const replace = () => Promise.reject(new ApiError(422, 'field is immutable when `immutable` is set'));
  let time = now;
  const reconcile = reconciler({ client: { ...client, replace }, now: () => time });
  await expect(reconcile(NAME, NEVER)).rejects.toThrow('immutable');
  for (let minute = 0; minute < 3; minute++) {
    time = new Date(time.getTime() + 60_000);
    await reconcile(NAME, NEVER);
  }
  const message = containing('it is immutable. Delete it, and Gatehouse creates it again');
  const regarding = { name: NAME, uid: 'u' };
  expect(events.all).toMatchObject([{ reason: 'WriteRefused', message, regarding }]);
  const [published] = await readPublishedBundles(client, OWN_NAMESPACE, NEVER);
  expect(published).toMatchObject({ target: `ConfigMap ${KEY}`, cause: containing('it is immutable') });
});
