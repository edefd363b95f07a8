import { expect, test } from 'vitest';

import type { RestoreDetector } from '../../api/restore-detector.ts';
import type { RestoreWindow } from '../../api/restore-window.ts';
import { openedForCluster } from '../../restore/window.ts';
import { pausesOf } from './restore-kinds.ts';

const quiesce = [{ apiGroup: 'apps', resource: 'deployments' }];
const windowOf = (user: string, status: RestoreWindow['status'] = {}) => ({
  apiVersion: 'gatehouse.dev/v1alpha1' as const,
  kind: 'RestoreWindow' as const,
  metadata: { name: user },
  spec: { principals: [{ user }], expiresAt: '2026-12-01T00:00:00Z', quiesce },
  status,
});

test('only open windows for the whole cluster pause what restorers write', () => {
  const closed = windowOf('over', { closedAt: '2026-11-30T00:00:00Z' });
  const windows = [windowOf('tenant'), openedForCluster(windowOf('admin')), openedForCluster(closed)];
  const none: readonly RestoreDetector[] = [];
  expect(pausesOf({ list: () => windows }, { list: () => none })).toEqual({
    kinds: [{ group: 'apps', resource: 'deployments' }],
    restorers: [{ user: 'admin' }],
  });
});
