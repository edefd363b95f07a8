import { beforeEach, expect, test } from 'vitest';

import type { RestoreWindow } from '../../api/restore-window.ts';
import {
  createCluster,
  NEVER,
  silent,
  type Cluster,
  type Objects,
} from '../../../test/support/runtime/fixtures.ts';
import { RESTORE_WINDOWS } from '../resources.ts';
import { followSweep, type SweepProgressOptions } from './window-status.ts';

const servers = { group: 'infra.example.com', resource: 'servers' };
const racks = { group: 'infra.example.com', resource: 'racks' };
const startedAt = new Date('2026-11-21T12:00:00Z');

let cluster: Cluster;
let windows: Objects<RestoreWindow>;
let now: Date;
let counted: string[];

beforeEach(() => {
  cluster = createCluster();
  windows = cluster.objects(RESTORE_WINDOWS);
  windows.add({
    metadata: { name: 'drill' },
    spec: { principals: [{ user: 'velero' }], expiresAt: '2026-11-21T13:00:00Z' },
    status: { phase: 'Settling' },
  });
  now = startedAt;
  counted = [];
});

function follow(stored: Partial<SweepProgressOptions['stored']> = {}) {
  const window = windows.read('drill');
  if (window === undefined) throw new Error('expected a window');
  return followSweep(window, {
    client: cluster.client,
    stored: {
      count: ({ resource }) => {
        counted.push(resource);
        return Promise.resolve(1_000);
      },
      ...stored,
    },
    now: () => now,
    log: silent,
  });
}

const after = (seconds: number) => {
  now = new Date(startedAt.getTime() + seconds * 1_000);
};
const page = (objectsScanned: number) => ({
  ...{ startedAt, objectsScanned, resource: servers, resources: [servers, racks] },
});
const progress = () => windows.read('drill')?.status?.currentSweep;

test('a short sweep writes no progress, and counts nothing', async () => {
  const { onProgress } = follow();
  after(2);
  await onProgress(page(500), NEVER);
  expect(progress()).toBeUndefined();
  expect(counted).toEqual([]);
});

test('a long sweep writes its progress every few seconds, and keeps the rest of the status', async () => {
  const { onProgress, window } = follow();
  after(4);
  await onProgress(page(500), NEVER);
  await onProgress(page(600), NEVER);
  expect(windows.read('drill')?.status).toEqual({
    phase: 'Settling',
    currentSweep: {
      startedAt: '2026-11-21T12:00:00.000Z',
      objectsScanned: 500,
      objectsTotal: 2_000,
      resource: 'servers.infra.example.com',
    },
  });
  after(8);
  await onProgress(page(3_000), NEVER);
  expect(progress()).toMatchObject({ objectsScanned: 3_000, objectsTotal: 3_000 });
  expect(windows.writes()).toBe(2);
  expect(counted).toEqual(['servers', 'racks']);
  expect(window().status?.currentSweep).toEqual(progress());
});

test.each([
  ['does not return a count', () => Promise.resolve(undefined)],
  ['forbids counting', () => Promise.reject(new Error('forbidden'))],
])('when the API server %s, the progress has no total', async (_what, count) => {
  const { onProgress } = follow({ count });
  after(4);
  await onProgress(page(500), NEVER);
  expect(progress()).toMatchObject({ objectsScanned: 500 });
  expect(progress()).not.toHaveProperty('objectsTotal');
});

test('a window that another client has changed is left alone, and the sweep continues', async () => {
  const { onProgress, window } = follow();
  windows.patch('drill', { spec: { close: true } });
  after(4);
  await onProgress(page(500), NEVER);
  after(8);
  await onProgress(page(600), NEVER);
  expect(progress()).toBeUndefined();
  expect(windows.writes()).toBe(1);
  expect(window().spec.close).toBeUndefined(); // so the next write of the report fails with a conflict
});
