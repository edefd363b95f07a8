import { expect, test } from 'vitest';

import type { RestoreWindow } from '../../api/restore-window.ts';
import { NEVER, silent } from '../../../test/support/runtime/fixtures.ts';
import { createOwnSweepsReconciler } from './own-sweeps.ts';

const NOW = new Date('2026-11-21T12:00:00Z');

function scene(create: (window: RestoreWindow) => Promise<boolean>) {
  const done: string[] = [];
  const reconcile = createOwnSweepsReconciler({
    create,
    done: (name) => done.push(name),
    now: () => NOW,
    log: silent,
  });
  return { done, reconcile: (name: string) => reconcile(name, NEVER) };
}

test('the window is made once, and then no longer due', async () => {
  const made: RestoreWindow[] = [];
  const { done, reconcile } = scene((window) => Promise.resolve(made.push(window) === 1));
  await reconcile('rollback-501');
  await reconcile('rollback-501'); // it exists
  expect(made[0]).toMatchObject({
    metadata: { name: 'rollback-501' },
    spec: { source: { type: 'Rollback' }, principals: [], close: true, expiresAt: '2026-11-21T13:00:00Z' },
  });
  expect(done).toEqual(['rollback-501', 'rollback-501']);
});

test('a window that could not be made stays due', async () => {
  const { done, reconcile } = scene(() => Promise.reject(new Error('no route to host')));
  await expect(reconcile('startup-1')).rejects.toThrow('no route to host');
  expect(done).toEqual([]);
});

test('a name that somebody else wrote on the lease makes nothing', async () => {
  const { done, reconcile } = scene(() => Promise.reject(new Error('not to be called')));
  await reconcile('velero-123');
  expect(done).toEqual(['velero-123']);
});
