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

test('a window that could not be created stays due', async () => {
  const { done, reconcile } = setUp({ create: () => Promise.reject(new Error('no route to host')) });
  await expect(reconcile('startup-1')).rejects.toThrow('no route to host');
  expect(done).toEqual([]);
});

test('S7: a window of a user with the name of the sweep does not replace it', async () => {
  const { done, windows, reconcile } = setUp();
  const spec = { principals: [{ user: 'eve' }], expiresAt: '2026-11-21T13:00:00Z' };
  windows.add({ metadata: { name: 'rollback-501' }, spec });
  await reconcile('rollback-501');
  await reconcile('rollback-501');
  expect(windows.list().map(({ metadata, spec }) => [metadata.name, spec.source?.type])).toEqual([
    ['rollback-501', undefined],
    ['rollback-501-1', 'Rollback'],
  ]);
  expect(done).toHaveLength(2);
});
