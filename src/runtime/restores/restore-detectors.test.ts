import { beforeEach, describe, expect, test } from 'vitest';

import type { RestoreDetector } from '../../api/restore-detector.ts';
import type { RestoreWindow } from '../../api/restore-window.ts';
import {
  ApiError,
  createCluster,
  createEvents,
  NEVER,
  silent,
  standing,
} from '../../../test/support/runtime/fixtures.ts';
import type { KubeObject } from '../../json/kube-object.ts';
import type { ReconcileResult } from '../controller.ts';
import type { Followed } from './restore-sources.ts';
import { RESTORE_DETECTORS, RESTORE_WINDOWS } from '../resources.ts';
import { createRestoreDetectorsReconciler } from './restore-detectors.ts';

const DETECTOR: RestoreDetector = {
  metadata: { name: 'velero', generation: 1, creationTimestamp: '2026-11-21T10:00:00Z' },
  spec: {
    watch: { apiGroup: 'velero.io', version: 'v1', resource: 'restores' },
    namespaces: ['velero'],
    phasePath: 'status.phase',
    startPath: 'status.startTimestamp',
    activeValues: ['InProgress'],
    terminalValues: ['Completed'],
    principals: [{ group: 'system:serviceaccounts:velero' }],
  },
};
const restore = (uid: string, phase: string, creationTimestamp = '2026-11-21T11:00:00Z') => ({
  apiVersion: 'velero.io/v1',
  kind: 'Restore',
  metadata: { namespace: 'velero', name: uid, uid, creationTimestamp },
  status: { phase },
});

let now: Date;
let restores: readonly KubeObject[];
let outside: readonly string[];
let followed: Exclude<Followed, { kind: 'following' }> | undefined;
let spec: Partial<RestoreDetector['spec']>;

beforeEach(() => {
  now = new Date('2026-11-21T12:00:00Z');
  restores = [restore('u1', 'InProgress')];
  outside = [];
  followed = undefined;
  spec = {};
});

/** @param isStale whether the store of the leader shows no window */
function setUp(change: Parameters<typeof createCluster>[0] = {}, isStale = false) {
  const { client, objects } = createCluster(change);
  const windows = objects<RestoreWindow>(RESTORE_WINDOWS);
  objects<RestoreDetector>(RESTORE_DETECTORS).add({ ...DETECTOR, spec: { ...DETECTOR.spec, ...spec } });
  const detectors = { get: () => objects<RestoreDetector>(RESTORE_DETECTORS).read('velero') };
  const follow = () =>
    Promise.resolve(followed ?? ({ kind: 'following', objects: restores, outside } as const));
  const reconcile = createRestoreDetectorsReconciler(
    { client, serverClock: { now: () => now }, log: silent, record: createEvents().record },
    detectors,
    { list: () => (isStale ? [] : windows.list()) },
    { follow, unfollow: () => undefined },
  );
  const reconcileVelero = (): Promise<ReconcileResult> => reconcile('velero', NEVER);
  return { windows, detector: detectors.get, reconcile: reconcileVelero };
}

const USERS: Pick<RestoreWindow, 'spec'> = {
  spec: { principals: [{ user: 'eve' }], expiresAt: '2026-11-21T13:00:00Z' },
};
const uidsOf = (windows: readonly RestoreWindow[]) => windows.map(({ spec }) => spec.source?.ref?.uid);

test('each restore has one window, however often the leader looks', async () => {
  const { windows, reconcile } = setUp();
  restores = [restore('u1', 'InProgress'), restore('u2', 'Completed'), restore('u3', 'New')];
  await reconcile();
  await reconcile();
  expect(uidsOf(windows.list())).toEqual(['u1', 'u2']);
  expect(windows.list().map(({ spec }) => spec.close)).toEqual([undefined, true]);
});

test('the status names trusted namespaces that --namespaces leaves out', async () => {
  const { detector, reconcile } = setUp();
  const watching = () => detector()?.status?.conditions?.find(({ type }) => type === 'Watching');
  await reconcile();
  expect(watching()).toMatchObject({ status: 'True' });
  outside = ['velero'];
  await reconcile();
  expect(watching()).toMatchObject({
    status: 'False',
    reason: 'OutsideNamespaces',
    message: '--namespaces leaves out velero: restores there open no RestoreWindow',
  });
});

test.each<[string, string, string, () => void]>([
  ['follows its kind', 'Ready', 'Enabled', () => undefined],
  ['waits for its kind to be installed', 'Ready', 'Enabled', () => (followed = { kind: 'not-served' })],
  ['trusts no namespace', 'Ready', 'Disabled', () => (spec = { namespaces: [] })],
  ['lists its kind', 'Reconciling', 'Listing', () => (followed = { kind: 'listing' })],
  ['may not read its kind', 'Reconciling', 'Forbidden', () => (followed = { kind: 'forbidden' })],
  [
    'has an invalid spec',
    'Stalled',
    'InvalidSpec',
    () => (spec = { principals: [{ group: 'system:authenticated' }] }),
  ],
])('a detector that %s is %s', async (_what, expected, reason, change) => {
  change();
  const { detector, reconcile } = setUp();
  await reconcile();
  const found = detector();
  expect(standing(found)).toBe(expected);
  expect(found?.status?.observedGeneration).toBe(1);
  expect(found?.status?.conditions?.find(({ type }) => type === 'Ready')?.reason).toBe(reason);
  const before = JSON.stringify(found);
  await reconcile();
  expect(JSON.stringify(detector())).toBe(before);
});

describe('S7: a restore has its window', () => {
  /** The window that the restore has in a cluster without other windows. */
  const usual = async () => {
    const { windows, reconcile } = setUp();
    await reconcile();
    return windows.list()[0] ?? { metadata: {}, ...USERS };
  };
  const ofUser = ({ metadata: { name = '' } }: RestoreWindow) => ({ ...USERS, metadata: { name } });

  test('although a window of a user has the name', async () => {
    const { windows, reconcile } = setUp();
    windows.add(ofUser(await usual()));
    await reconcile();
    await reconcile();
    expect(uidsOf(windows.list())).toEqual([undefined, 'u1']);
  });

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

  test('again after a user deleted it, while the restore is active and its checks are deferred', async () => {
    const { windows, reconcile } = setUp();
    const remove = () => {
      windows.remove(windows.list()[0]?.metadata.name ?? '');
    };
    await reconcile();
    remove();
    await reconcile();
    expect(uidsOf(windows.list())).toEqual(['u1']);
    remove();
    restores = [restore('u1', 'Completed')];
    await reconcile();
    expect(windows.list()).toMatchObject([{ spec: { close: true } }]);
    remove();
    await reconcile(); // the restore is over, so its window stays deleted
    expect(windows.list()).toEqual([]);
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

  test('although it is older than its detector', async () => {
    restores = [restore('u1', 'InProgress', '2026-11-21T09:00:00Z')];
    const { windows, reconcile } = setUp();
    await reconcile();
    expect(windows.list()).toMatchObject([{ spec: { expiresAt: '2026-11-21T15:00:00Z' } }]);
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
