import { expect, test } from 'vitest';

import type { RestoreWindow } from '../../api/restore-window.ts';
import { createCluster, NEVER, silent } from '../../../test/support/runtime/fixtures.ts';
import { RESTORE_WINDOWS } from '../resources.ts';
import { createOwnSweepsReconciler } from './own-sweeps.ts';

const NOW = new Date('2026-11-21T12:00:00Z');

function setUp(change: Parameters<typeof createCluster>[0] = {}) {
  const done: string[] = [];
  const { client, objects } = createCluster(change);
  const reconcile = createOwnSweepsReconciler(
    client,
    (name) => done.push(name),
    () => NOW,
    silent,
  );
  const windows = objects<RestoreWindow>(RESTORE_WINDOWS);
  return { done, windows, reconcile: (name: string) => reconcile(name, NEVER) };
}

test('the window is created once, and then no longer due', async () => {
  const { done, windows, reconcile } = setUp();
  await reconcile('rollback-501');
  await reconcile('rollback-501'); // the window exists already
  expect(windows.list()).toMatchObject([
    {
      metadata: { name: 'rollback-501' },
      spec: { source: { type: 'Rollback' }, principals: [], close: true, expiresAt: '2026-11-21T13:00:00Z' },
    },
  ]);
  expect(done).toEqual(['rollback-501', 'rollback-501']);
});

test('a window that could not be created stays due', async () => {
  const { done, reconcile } = setUp({ create: () => Promise.reject(new Error('no route to host')) });
  await expect(reconcile('startup-1')).rejects.toThrow('no route to host');
  expect(done).toEqual([]);
});

test('an invalid name on the Lease creates nothing', async () => {
  const { done, reconcile } = setUp({ create: () => Promise.reject(new Error('unexpected call')) });
  await reconcile('velero-123');
  expect(done).toEqual(['velero-123']);
});

test('S7: a window of a user with the name of the sweep does not replace it', async () => {
  const { done, windows, reconcile } = setUp();
  windows.add({
    metadata: { name: 'rollback-501' },
    spec: { principals: [{ user: 'eve' }], expiresAt: '2026-11-21T13:00:00Z' },
  });
  await reconcile('rollback-501');
  await reconcile('rollback-501');
  expect(windows.list().map(({ metadata, spec }) => [metadata.name, spec.source?.type])).toEqual([
    ['rollback-501', undefined],
    ['rollback-501-1', 'Rollback'],
  ]);
  expect(done).toHaveLength(2);
});
