import { beforeEach, expect, test } from 'vitest';

import type { RestoreWindow } from '../../api/restore-window.ts';
import { createObjects, NEVER, silent, type Objects } from '../../../test/support/runtime/fixtures.ts';
import { followSweep, type SweepFollowerDeps } from './sweep-follower.ts';

const servers = { group: 'infra.example.com', resource: 'servers' };
const racks = { group: 'infra.example.com', resource: 'racks' };
const startedAt = new Date('2026-11-21T12:00:00Z');

let windows: Objects<RestoreWindow>;
let now: Date;
let writes: number;
let counted: string[];

beforeEach(() => {
  windows = createObjects();
  windows.add({
    metadata: { name: 'drill' },
    spec: { principals: [{ user: 'velero' }], expiresAt: '2026-11-21T13:00:00Z' },
    status: { phase: 'Settling' },
  });
  now = startedAt;
  writes = 0;
  counted = [];
});

function follow(change: Partial<SweepFollowerDeps> = {}) {
  const window = windows.read('drill');
  if (window === undefined) throw new Error('there is a window');
  return followSweep(window, {
    count: ({ resource }) => {
      counted.push(resource);
      return Promise.resolve(1_000);
    },
    writeStatus: (live, status) => {
      writes += 1;
      return windows.replace({ ...live, status });
    },
    now: () => now,
    log: silent,
    ...change,
  });
}

const after = (seconds: number) => {
  now = new Date(startedAt.getTime() + seconds * 1_000);
};
const page = (objectsScanned: number) => ({
  ...{ startedAt, objectsScanned, resource: servers, resources: [servers, racks] },
});
const said = () => windows.read('drill')?.status?.currentSweep;

test('of a sweep that is soon over nothing is said, and nothing is counted', async () => {
  const { onProgress } = follow();
  after(2);
  await onProgress(page(500), NEVER);
  expect(said()).toBeUndefined();
  expect(counted).toEqual([]);
});

test('a long one is told every few seconds, beside what the status says already', async () => {
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
  expect(said()).toMatchObject({ objectsScanned: 3_000, objectsTotal: 3_000 });
  expect(writes).toBe(2);
  expect(counted).toEqual(['servers', 'racks']);
  expect(window().status?.currentSweep).toEqual(said());
});

test.each([
  ['does not say', () => Promise.resolve(undefined)],
  ['does not let it be counted', () => Promise.reject(new Error('forbidden'))],
])('where the API server %s how much there is, the objects alone are told', async (_what, count) => {
  const { onProgress } = follow({ count });
  after(4);
  await onProgress(page(500), NEVER);
  expect(said()).toMatchObject({ objectsScanned: 500 });
  expect(said()).not.toHaveProperty('objectsTotal');
});

test('a window that somebody else has changed is left alone, and the sweep goes on', async () => {
  const { onProgress, window } = follow();
  windows.edit('drill', (live) => ({ ...live, spec: { ...live.spec, close: true } }));
  after(4);
  await onProgress(page(500), NEVER);
  after(8);
  await onProgress(page(600), NEVER);
  expect(said()).toBeUndefined();
  expect(writes).toBe(1);
  expect(window().spec.close).toBeUndefined(); // the report that is written next meets the conflict
});
