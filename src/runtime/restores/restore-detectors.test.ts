import { setImmediate } from 'node:timers/promises';
import { beforeEach, describe, expect, test } from 'vitest';

import type { RestoreDetector } from '../../api/restore-detector.ts';
import type { RestoreWindow } from '../../api/restore-window.ts';
import { ApiError, createCluster, NEVER, silent } from '../../../test/support/runtime/fixtures.ts';
import type { KubeObject } from '../../json/kube-object.ts';
import { RESTORE_DETECTORS, RESTORE_WINDOWS } from '../resources.ts';
import { createRestoreDetectorsReconciler, createRestoreSources } from './restore-detectors.ts';
import { createListedContext } from '../../../test/support/runtime/listed-rest.ts';
import { RESTORES } from '../../../test/support/velero-client.ts';
import { veleroDetector, veleroRestore } from '../../../test/support/velero-detector.ts';

const DETECTOR = veleroDetector();
const restore = (uid: string, phase: string) => veleroRestore(uid, { phase });

let now: Date;
let restores: readonly KubeObject[];

beforeEach(() => {
  now = new Date('2026-11-21T12:00:00Z');
  restores = [restore('u1', 'InProgress')];
});

/** @param isStale whether the store of the leader shows no window */
function setUp(change: Parameters<typeof createCluster>[0] = {}, isStale = false) {
  const { client, objects, events } = createCluster(change);
  const windows = objects<RestoreWindow>(RESTORE_WINDOWS);
  const detectors = objects<RestoreDetector>(RESTORE_DETECTORS);
  detectors.add(DETECTOR);
  const follow = () => Promise.resolve({ kind: 'following', objects: restores, outside: [] } as const);
  const reconcile = createRestoreDetectorsReconciler(
    { client, serverClock: { now: () => now }, log: silent, record: events.record },
    { get: () => detectors.read('velero') },
    { list: () => (isStale ? [] : windows.list()) },
    { follow, unfollow: () => undefined },
  );
  const trust = (namespace: string) => detectors.patch('velero', { spec: { namespaces: [namespace] } });
  return { windows, reasons: events.reasons, trust, reconcile: () => reconcile('velero', NEVER) };
}

const USERS = { spec: { principals: [{ user: 'eve' }], expiresAt: '2026-11-21T13:00:00Z' } };
const uidsOf = (windows: readonly RestoreWindow[]) => windows.map(({ spec }) => spec.source?.ref?.uid);

test('each restore has one window, however often the leader looks', async () => {
  const { windows, reconcile } = setUp();
  restores = [restore('u1', 'InProgress'), restore('u2', 'Completed'), restore('u3', 'New')];
  await reconcile();
  await reconcile();
  expect(uidsOf(windows.list())).toEqual(['u1', 'u2']);
  expect(windows.list().map(({ spec }) => spec.close)).toEqual([undefined, true]);
});

describe('S7: a restore has its window', () => {
  /** The window that the restore has in a cluster without other windows. */
  const usual = async () => {
    const { windows, reconcile } = setUp();
    await reconcile();
    return windows.list()[0] ?? { metadata: {}, ...USERS };
  };
  const ofUser = ({ metadata: { name = '' } }: RestoreWindow) => ({ ...USERS, metadata: { name } });

  test('although the store does not show the window of the user yet: the leader looks again', async () => {
    const again = { kind: 'requeue', at: new Date(now.getTime() + 1_000) };
    const { windows, reconcile } = setUp({}, true);
    windows.add(ofUser(await usual()));
    expect(await reconcile()).toEqual(again);
    expect(uidsOf(windows.list())).toEqual([undefined]);
    const raced = setUp({ create: () => Promise.reject(new ApiError(409, 'exists', 'AlreadyExists')) });
    expect(await raced.reconcile()).toEqual(again);
  });

  test('once, although the store does not show it yet', async () => {
    const { windows, reconcile } = setUp({}, true);
    windows.add(await usual());
    expect(await reconcile()).toEqual({ kind: 'await-change' });
    expect(uidsOf(windows.list())).toEqual(['u1']);
  });

  test('although the window of another restore cannot be created', async () => {
    restores = [restore('bad', 'InProgress'), restore('good', 'InProgress')];
    const made: string[] = [];
    const { reconcile } = setUp({
      create: (_kind, object) => {
        const { spec } = object as unknown as RestoreWindow;
        const uid = spec.source?.ref?.uid ?? '';
        if (uid === 'bad') return Promise.reject(new ApiError(422, 'invalid'));
        made.push(uid);
        return Promise.resolve(object);
      },
    });
    await expect(reconcile()).rejects.toThrow('invalid');
    expect(made).toEqual(['good']);
  });

  test('while the window that a user deletes is swept, unless the restore is over', async () => {
    const { windows, reconcile } = setUp();
    await reconcile();
    const { name = '' } = windows.list()[0]?.metadata ?? {};
    windows.patch(name, { metadata: { deletionTimestamp: '2026-11-21T12:00:00Z' } });
    await reconcile();
    await reconcile();
    expect(uidsOf(windows.list())).toEqual(['u1', 'u1']);
    expect(windows.list()[1]?.metadata.name).not.toBe(name);
    windows.remove(windows.list()[1]?.metadata.name ?? '');
    restores = [restore('u1', 'Completed')];
    await reconcile();
    expect(windows.list()).toHaveLength(1);
  });

  test('only once, even if its namespace is not trusted for a while and its window is deleted', async () => {
    const { windows, reasons, trust, reconcile } = setUp();
    const see = async (trusted: string, phase: string, ...uids: readonly string[]) => {
      restores = uids.map((uid) => restore(uid, phase));
      trust(trusted);
      await reconcile();
    };
    await see('k8up', 'InProgress', 'reported-first');
    await see('velero', 'Completed', 'reported-first', 'done-first');
    for (const { metadata } of windows.list()) windows.remove(metadata.name ?? '');
    await see('k8up', 'InProgress', 'reported-first', 'done-first');
    await see('velero', 'Completed', 'reported-first', 'done-first');
    expect(windows.list()).toEqual([]);
    expect(reasons()).toEqual(['Untrusted', 'Untrusted']); // one for each restore
  });

  test('at the end of its time if its phase is not one that the detector names', async () => {
    restores = [restore('u1', 'Dancing')];
    const { windows, reconcile } = setUp();
    expect(await reconcile()).toEqual({ kind: 'requeue', at: new Date('2026-11-21T17:00:00Z') });
    expect(windows.list()).toEqual([]);
    now = new Date('2026-11-21T17:00:00Z');
    await reconcile();
    expect(windows.list()).toMatchObject([{ spec: { close: true } }]);
  });
});

const LISTS = '/apis/velero.io/v1/restores';
const detectorOf = (version: string): RestoreDetector => ({
  ...DETECTOR,
  spec: { ...DETECTOR.spec, watch: { ...DETECTOR.spec.watch, version } },
});
const running = restore('u1', 'InProgress');
const windowFor = (uid: string): RestoreWindow => {
  const { namespace, name } = running.metadata;
  const ref = { apiVersion: 'velero.io/v1', kind: 'Restore', resource: 'restores', namespace, name, uid };
  const source = { type: 'Detector' as const, detector: 'velero', ref };
  return { metadata: {}, spec: { source, principals: [], expiresAt: '2026-11-21T13:00:00Z' } };
};

function following({ served = true, allowed = true } = {}) {
  const { context, lists, listed, signal } = createListedContext({
    client: {
      create: (_kind: unknown, review: object) => Promise.resolve({ ...review, status: { allowed } }),
    },
    discovery: { resolve: () => Promise.resolve(served ? RESTORES : undefined) },
    serverClock: { now: () => new Date('2026-11-21T12:00:00Z') },
  });
  const sources = createRestoreSources(context, () => undefined, signal);
  const follow = (version = 'v1') => sources.follow(detectorOf(version), NEVER);
  const stateFor = (uid = 'u1') => sources.stateFor(windowFor(uid), detectorOf('v1'));
  return { lists, listed, follow, stateFor };
}

test('the state of a source is unknown until its kind is listed', async () => {
  const { lists, listed, follow, stateFor } = following();
  const list = Promise.withResolvers<readonly KubeObject[]>();
  lists.set(LISTS, list.promise);
  expect(await follow()).toEqual({ kind: 'listing' });
  expect(stateFor()).toBeUndefined();
  list.resolve([running]);
  while ((await follow()).kind === 'listing') await setImmediate();
  expect(await follow()).toEqual({ kind: 'following', objects: [running], outside: [] });
  expect(stateFor()).toMatchObject({ kind: 'known', activity: 'active', phase: 'InProgress' });
  expect(stateFor('of-an-earlier-restore')).toMatchObject({ kind: 'gone' });
  expect(listed).toEqual([LISTS]);
  await follow('v2');
  expect(listed).toEqual([LISTS, '/apis/velero.io/v2/restores']);
});

test.each([
  ['not-served', { served: false }],
  ['forbidden', { allowed: false }],
])('a kind that is %s is not watched', async (kind, change) => {
  const { listed, follow } = following(change);
  expect(await follow()).toEqual({ kind });
  expect(listed).toEqual([]);
});
