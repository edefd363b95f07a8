import { setImmediate } from 'node:timers/promises';
import { expect, onTestFinished, test } from 'vitest';

import { createCluster, NEVER, silent } from '../../../test/support/runtime/fixtures.ts';
import { createListedRest } from '../../../test/support/runtime/listed-rest.ts';
import type { RestoreDetector } from '../../api/restore-detector.ts';
import type { RestoreWindow } from '../../api/restore-window.ts';
import type { KubeObject } from '../../json/kube-object.ts';
import type { Context } from '../context.ts';
import { createListeners } from '../listeners.ts';
import { createRestoreSources, outsideNamespaces } from './restore-sources.ts';

const COVERED = ['gatehouse-system', 'velero'];

test.each([
  ['a namespace that --namespaces leaves out', true, ['velero', 'k8up'], COVERED, ['k8up']],
  ['covered namespaces', true, ['velero'], COVERED, []],
  ['all namespaces', true, ['*'], COVERED, []],
  ['a namespace without --namespaces', true, ['k8up'], undefined, []],
  ['a namespace for a cluster-scoped kind', false, ['k8up'], COVERED, []],
])(
  'which namespaces are left out if a detector trusts %s',
  (_what, namespaced, namespaces, covered, expected) => {
    const detector = { spec: { namespaces } } as unknown as RestoreDetector;
    expect(outsideNamespaces({ namespaced }, detector, covered)).toEqual(expected);
  },
);

const RESTORES = {
  group: 'velero.io',
  version: 'v1',
  resource: 'restores',
  kind: 'Restore',
  namespaced: true,
};
const LISTS = '/apis/velero.io/v1/restores';
const detectorOf = (version: string): RestoreDetector => ({
  metadata: { name: 'velero' },
  spec: {
    watch: { apiGroup: 'velero.io', version, resource: 'restores' },
    namespaces: ['velero'],
    phasePath: 'status.phase',
    activeValues: ['InProgress'],
    principals: [{ user: 'restorer' }],
  },
});
const restore = {
  ...{ apiVersion: 'velero.io/v1', kind: 'Restore' },
  metadata: { namespace: 'velero', name: 'r', uid: 'u1' },
  status: { phase: 'InProgress' },
};
const windowFor = (uid: string): RestoreWindow => {
  const { namespace, name } = restore.metadata;
  const ref = { apiVersion: 'velero.io/v1', kind: 'Restore', resource: 'restores', namespace, name, uid };
  const source = { type: 'Detector' as const, detector: 'velero', ref };
  return { metadata: {}, spec: { source, principals: [], expiresAt: '2026-11-21T13:00:00Z' } };
};

function following({ served = true, allowed = true } = {}) {
  const { rest, lists, listed } = createListedRest();
  const stop = new AbortController();
  onTestFinished(() => stop.abort());
  const context = {
    rest,
    client: createCluster({
      create: (_kind, review) => Promise.resolve({ ...review, status: { allowed } }),
    }).client,
    discovery: { resolve: () => Promise.resolve(served ? RESTORES : undefined) },
    namespaces: undefined,
    serverClock: { now: () => new Date('2026-11-21T12:00:00Z') },
    rollbacks: createListeners<[]>(),
    log: silent,
  } as unknown as Context; // the parts that sources read
  const sources = createRestoreSources(context, () => undefined, stop.signal);
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
  list.resolve([restore]);
  while ((await follow()).kind === 'listing') await setImmediate();
  expect(await follow()).toEqual({ kind: 'following', objects: [restore], outside: [] });
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
