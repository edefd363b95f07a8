import { beforeEach, describe, expect, test, vi } from 'vitest';

import {
  closeWindow,
  createQuiesceCluster,
  DEPLOYMENTS,
  openWindow,
  SCALE,
  sign,
  type QuiesceCluster,
} from '../../../../test/support/quiesce-world.ts';
import { encodeRecord, QUIESCE_ANNOTATION } from '../../../restore/quiesce/plan.ts';
import { quiescePass } from './quiesce.ts';

const CLUSTERS = { group: 'cluster.x-k8s.io', resource: 'clusters' };
const PAUSE = { ...SCALE, apiGroup: CLUSTERS.group, resource: 'clusters', path: 'spec.paused', value: true };
const labels = { pause: 'yes' };

let cluster: QuiesceCluster;
beforeEach(() => {
  cluster = createQuiesceCluster();
  cluster.put(DEPLOYMENTS, { name: 'app', labels }, { replicas: 3 });
});

const pass = () => quiescePass(cluster.world, new AbortController().signal);
/** The first pass announces the pause. */
const start = async () => {
  await pass();
  return await pass();
};
/** The window `drill` opens, and pauses. */
const begin = async (...more: [rules?: Parameters<typeof openWindow>[2], spec?: object]) => {
  openWindow(cluster, 'drill', ...more);
  return await start();
};
/** The window is over, after its final sweep. */
const end = async (name = 'drill') => {
  const now = cluster.time.toISOString();
  closeWindow(cluster, name, { startedAt: now, finishedAt: now, objectsScanned: 1, interim: false });
  return await pass();
};
const replicas = (name = 'app', namespace?: string) =>
  cluster.get(DEPLOYMENTS, name, namespace)?.spec?.replicas;
const state = (name = 'drill') =>
  cluster.windows.get(name)?.status?.conditions?.find(({ type }) => type === 'Quiesced');
/** The object `app`, with this record. */
const put = (text: string, spec: { replicas: number }, marks: Record<string, string> = labels) => {
  const annotations = { [QUIESCE_ANNOTATION]: text };
  cluster.put(DEPLOYMENTS, { name: 'app', labels: marks, annotations }, spec);
};
const marks = () => cluster.get(DEPLOYMENTS, 'app')?.metadata?.annotations;

test('an open window pauses in order, and its end undoes it in reverse order', async () => {
  cluster.put(CLUSTERS, { name: 'fleet', labels }, {});
  expect(await begin([PAUSE, SCALE])).toBe('open');
  expect([replicas(), cluster.get(CLUSTERS, 'fleet')?.spec]).toEqual([0, { paused: true }]);
  expect(state()).toMatchObject({ status: 'True', reason: 'Paused', message: '2 objects are paused' });
  closeWindow(cluster, 'drill');
  await pass();
  expect(replicas()).toBe(0); // until the final sweep
  expect(await end()).toBe('idle');
  expect([replicas(), cluster.get(CLUSTERS, 'fleet')?.spec, marks()]).toEqual([3, {}, undefined]);
  expect(cluster.writes).toEqual(['pause fleet', 'pause app', 'undo app', 'undo fleet']);
  expect(state()).toMatchObject({ status: 'False', reason: 'Undone' });
});

describe('what a restorer wrote is paused before the leader sees it', () => {
  const other = 'paused elsewhere';
  /** As a webhook replica writes it. */
  const born = (name: string, metadata: object = {}) => {
    const before = { path: 'spec.replicas', set: 0, was: 4, times: 1, made: 0 };
    const text = encodeRecord(DEPLOYMENTS, { metadata: { namespace: 'ops', name } }, before, sign);
    const annotations = { [QUIESCE_ANNOTATION]: text };
    const marked = { ...labels, 'gatehouse.dev/quiesced': 'true' };
    cluster.put(DEPLOYMENTS, { name, labels: marked, annotations, ...metadata }, { replicas: 0 });
  };
  /** The leader has not written the status of the window yet. */
  const unopened = () => {
    openWindow(cluster, other);
    const window = cluster.windows.get(other);
    if (window !== undefined) cluster.windows.set(other, { ...window, status: {} });
  };

  test('it stays paused while the window lacks a status', async () => {
    unopened();
    born('app');
    await pass();
    expect(cluster.writes).toEqual([]);
  });

  test('it stays paused while the leader has not seen the window', async () => {
    cluster.rules = [SCALE];
    const live = [...cluster.windows.values()];
    openWindow(cluster, other);
    const unseen = { ...cluster.world, windows: () => live };
    born('app');
    await quiescePass(unseen, new AbortController().signal);
    expect(cluster.writes).toEqual([]);
  });

  test('it resumes if the window ends before the leader has opened it', async () => {
    unopened();
    born('app');
    closeWindow(cluster, other);
    await pass();
    expect([replicas(), state(other)?.reason]).toEqual([4, 'Undone']);
  });

  test('owners resume before their dependents, and dependents wait for owners that cannot resume', async () => {
    await begin([PAUSE, SCALE]);
    cluster.writes.length = 0;
    const owned = (uid: string, owner: string) => ({
      uid,
      ownerReferences: [{ apiVersion: 'v1', kind: 'X', name: 'x', uid: owner }],
    });
    born('child', owned('c', 'p'));
    born('parent', owned('p', 'root'));
    born('root', { uid: 'root' });
    born('circle', owned('circle', 'circle'));
    const { patch } = cluster.world;
    const refused = vi.spyOn(cluster.world, 'patch').mockImplementation(async (ref, ...write) => {
      if (ref.name === 'parent') return { kind: 'forbidden', message: 'no' };
      return await patch(ref, ...write);
    });
    await end();
    expect(cluster.writes).toEqual(['undo app', 'undo root', 'undo circle']);
    expect(replicas('child')).toBe(0);
    refused.mockRestore();
    await pass();
    expect(cluster.writes.slice(3)).toEqual(['undo parent', 'undo child']);
  });
});

test.each([
  ['an interim sweep', '2026-11-21T12:00:01Z', true],
  ['a sweep from before the end', '2026-11-21T11:59:59Z', false],
])('%s does not end the pause', async (_which, startedAt, interim) => {
  await begin();
  closeWindow(cluster, 'drill', { startedAt, finishedAt: startedAt, objectsScanned: 1, interim });
  await pass();
  expect(replicas()).toBe(0);
});

test('without a final sweep, objects do not stay paused for ever', async () => {
  await begin();
  closeWindow(cluster, 'drill');
  cluster.time = new Date('2026-11-21T12:20:00Z');
  await pass();
  expect(replicas()).toBe(3);
});

const ref = { apiVersion: '', kind: '', name: '', uid: '', namespace: 'velero' };
const excluding = { match: { namespaces: { exclude: ['other'] } } };
test.each<[what: string, namespace: string, change: object, rule: object]>([
  ['in a namespace that the window excludes', 'other', excluding, {}],
  ['in a namespace that the rule does not contain', 'other', {}, { namespaces: ['ops'] }],
  ['in the namespace of Gatehouse', 'gatehouse-system', {}, {}],
  ['in the namespace of the backup tool', 'velero', { source: { type: 'Detector', ref } }, {}],
])('never outside of the window %s', async (_what, namespace, change, rule) => {
  cluster.put(DEPLOYMENTS, { name: 'far', namespace, labels }, { replicas: 2 });
  await begin([{ ...SCALE, ...rule }], change);
  expect([replicas(), replicas('far', namespace)]).toEqual([0, 2]);
});

test('two windows: the first end undoes nothing', async () => {
  openWindow(cluster, 'drill');
  openWindow(cluster, 'other');
  await start();
  await end();
  expect([replicas(), state()?.reason, state('other')?.reason]).toEqual([0, 'Undone', 'Paused']);
  await end('other');
  expect(replicas()).toBe(3);
});

test('if others change the field, their value is restored at the end, and after three pauses they win', async () => {
  await begin();
  for (const wanted of [4, 5]) {
    cluster.set(DEPLOYMENTS, 'app', 'replicas', wanted);
    await pass();
    expect(replicas()).toBe(0);
  }
  cluster.set(DEPLOYMENTS, 'app', 'replicas', 6);
  await pass();
  expect([replicas(), state()?.reason]).toEqual([6, 'Overridden']);
  expect(state()?.message).toContain('ops/app');
  await end();
  expect([replicas(), marks()]).toEqual([6, undefined]);
});

test('an object that was paused before the window is not reported as paused by another installation', async () => {
  cluster.put(DEPLOYMENTS, { name: 'app', labels }, { replicas: 0 });
  await begin();
  expect([state()?.reason, cluster.writes]).toEqual(['Paused', []]);
});

describe('a record that is', () => {
  const forged = (mac: string) => JSON.stringify({ path: 'spec.replicas', set: 3, was: 99, times: 1, mac });
  const before = { path: 'spec.replicas', set: 0, was: 7, times: 1, made: 0 };
  const record = (name: string) =>
    encodeRecord(DEPLOYMENTS, { metadata: { namespace: 'ops', name } }, before, sign);
  const gatehouse = { 'gatehouse.dev/quiesced': 'true' };

  test.each([
    ['forged', forged('x')],
    ['not JSON', '{'],
    ['of another object', record('other')],
    ['too long', 'x'.repeat(9_000)],
  ])('%s does nothing', async (_what, text) => {
    put(text, { replicas: 3 }, gatehouse);
    cluster.rules = [SCALE];
    await pass();
    expect([replicas(), cluster.writes]).toEqual([3, []]);
  });

  test('in a backup is undone, even without a window', async () => {
    put(record('app'), { replicas: 0 }, gatehouse);
    cluster.rules = [SCALE];
    await pass();
    expect(replicas()).toBe(7);
  });

  test('of another cluster is reported, and the object stays paused', async () => {
    put(record('app').replace(/"mac":"../, '"mac":"xx'), { replicas: 0 });
    await begin();
    expect([replicas(), state()?.reason]).toEqual([0, 'ForeignRecord']);
    await end();
    expect([replicas(), state()?.reason]).toEqual([0, 'Undone']);
    expect(state()?.message).toContain('app: another');
  });

  test('removed while the label remains is reported during the window and after it', async () => {
    await begin();
    cluster.put(DEPLOYMENTS, { name: 'app', labels: { ...labels, ...gatehouse } }, { replicas: 0 });
    await pass();
    expect(state()).toMatchObject({ status: 'False', reason: 'ForeignRecord' });
    await end();
    expect([replicas(), state()?.reason]).toEqual([0, 'Undone']);
    expect(state()?.message).toContain(
      'app: another installation has paused them, or their record was changed or removed',
    );
  });
});
