import { beforeEach, describe, expect, test } from 'vitest';

import { configMaps as CONFIG_MAPS } from '../../kube/well-known.ts';
import { createCaBundleReconciler, type CaBundleContext, type ConfigMap } from './ca-bundle.ts';
import {
  createCluster,
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

beforeEach(() => {
  cluster = createCluster();
  configMaps = cluster.objects(CONFIG_MAPS);
  bundle = 'roots of today';
});

const reconciler = (change: Partial<CaBundleContext> = {}) =>
  createCaBundleReconciler({
    namespace: OWN_NAMESPACE,
    bundle: () => bundle,
    client: cluster.client,
    now: () => now,
    log: silent,
    ...change,
  });

test('the bundle is published in a ConfigMap that is excluded from backups', async () => {
  await reconciler()(NAME, NEVER);
  expect(configMaps.read(KEY)).toMatchObject({
    kind: 'ConfigMap',
    metadata: { labels: { 'velero.io/exclude-from-backup': 'true' } },
    data: { 'ca.crt': 'roots of today' },
  });
});

test('running twice writes nothing the second time', async () => {
  await reconciler()(NAME, NEVER);
  await reconciler()(NAME, NEVER);
  expect(configMaps.writes()).toBe(1);
});

test('nothing is published before an authority exists', async () => {
  bundle = undefined;
  expect(await reconciler()(NAME, NEVER)).toEqual({ kind: 'await-change' });
  expect(configMaps.writes()).toBe(0);
});

test('the ConfigMap is checked every minute', async () => {
  const at = new Date('2026-11-21T12:01:00Z');
  expect(await reconciler()(NAME, NEVER)).toEqual({ kind: 'requeue', at });
});

describe('a ConfigMap is repaired', () => {
  test.each<[string, (live: ConfigMap) => ConfigMap]>([
    ['whose bundle was edited', (live) => ({ ...live, data: { 'ca.crt': 'forged' } })],
    [
      'whose data is missing',
      ({ apiVersion, kind, metadata }) => ({
        apiVersion: apiVersion ?? '',
        kind: kind ?? '',
        metadata: metadata ?? {},
      }),
    ],
    ['whose labels are missing', (live) => ({ ...live, metadata: { ...live.metadata, labels: {} } })],
  ])('%s', async (_what, spoil) => {
    await reconciler()(NAME, NEVER);
    const healthy = configMaps.read(KEY);
    configMaps.edit(KEY, spoil);
    await reconciler()(NAME, NEVER);
    expect(configMaps.read(KEY)).toEqual({
      ...healthy,
      metadata: { ...healthy?.metadata, resourceVersion: expect.any(String) as string },
    });
  });

  test('and keeps the data of other clients', async () => {
    configMaps.add({
      metadata: { namespace: OWN_NAMESPACE, name: NAME, labels: { team: 'a' }, annotations: { note: 'b' } },
      data: { 'other.crt': 'c' },
    });
    await reconciler()(NAME, NEVER);
    expect(configMaps.read(KEY)).toMatchObject({
      metadata: { labels: { team: 'a' }, annotations: { note: 'b' } },
      data: { 'other.crt': 'c', 'ca.crt': 'roots of today' },
    });
  });

  test('when the bundle of the authority changes', async () => {
    await reconciler()(NAME, NEVER);
    bundle = 'roots of tomorrow';
    await reconciler()(NAME, NEVER);
    expect(configMaps.read(KEY)?.data).toEqual({ 'ca.crt': 'roots of tomorrow' });
  });
});

test('a write conflict is a failure that is retried with the current object', async () => {
  await reconciler()(NAME, NEVER);
  bundle = 'roots of tomorrow';
  const overtaken = reconciler({
    client: {
      ...cluster.client,
      get: async (kind, ref) => {
        const live = await cluster.client.get(kind, ref);
        configMaps.edit(KEY, (object) => ({ ...object, data: { ...object.data, 'other.crt': 'c' } }));
        return live as never;
      },
    },
  });
  await expect(overtaken(NAME, NEVER)).rejects.toMatchObject({ code: 409 });
  await reconciler()(NAME, NEVER);
  expect(configMaps.read(KEY)?.data).toEqual({ 'ca.crt': 'roots of tomorrow', 'other.crt': 'c' });
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
