import { beforeEach, expect, test } from 'vitest';
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
