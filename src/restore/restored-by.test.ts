import { hash } from 'node:crypto';
import { expect, test } from 'vitest';
import type { RestoreDetector } from '../api/restore-detector.ts';
import type { RestoreWindow } from '../api/restore-window.ts';
import { restoringWindows, sweepMode, veleroName } from './restored-by.ts';

const restoredBy =
  (...given: Parameters<typeof restoringWindows>) =>
  (...made: Parameters<ReturnType<typeof restoringWindows>>) =>
    restoringWindows(...given)(...made).length > 0;
const window = (
  status: RestoreWindow['status'] = {},
  spec: Partial<RestoreWindow['spec']> = {},
): RestoreWindow => ({
  metadata: { name: 'w', creationTimestamp: '2026-11-21T12:00:10Z' },
  spec: { principals: [], expiresAt: '2026-11-21T18:00:00Z', ...spec },
  status,
});
const velero: RestoreDetector = {
  metadata: { name: 'velero' },
  spec: {
    attributionLabel: { key: 'velero.io/restore-name', value: 'VeleroName' },
  } as RestoreDetector['spec'], // the only fields that the function reads
};
const created = (time: string) => ({ creationTimestamp: `2026-11-21T${time}Z` });

test.each([
  ['before the window', '12:00:09', false],
  ['within its first second', '12:00:10', true],
  ['while it is open', '13:00:00', true],
  ['while its last writes arrive', '14:01:05', true],
  ['after its last writes', '14:01:06', false],
])('an object created %s (%s) counts as restored: %s', (_when, time, expected) => {
  const windows = [window({ openedAt: '2026-11-21T12:00:10.700Z', closedAt: '2026-11-21T14:00:00Z' })];
  expect(restoredBy(windows, [], 65_000)(created(time))).toBe(expected);
});

test('an open window has not ended, and without a window no object counts as restored', () => {
  expect(restoredBy([window()], [], 0)(created('23:59:59'))).toBe(true);
  expect(restoredBy([], [], 0)(created('23:59:59'))).toBe(false);
  expect(restoredBy([window()], [], 0)({})).toBe(false);
});

test('A10: an object with the label of the restore, shortened as by Velero, counts as restored', () => {
  const name = 'r'.repeat(80);
  const ref = { apiVersion: 'velero.io/v1', kind: 'Restore', resource: 'restores', name, uid: 'u' };
  const source = { type: 'Detector', detector: 'velero', ref } as const;
  const isRestored = restoredBy([window({}, { source })], [velero], 0);
  const labelled = (value: string) => ({
    ...created('01:00:00'),
    labels: { 'velero.io/restore-name': value },
  });
  expect(isRestored(labelled(`${'r'.repeat(57)}${hash('sha256', name).slice(0, 6)}`))).toBe(true);
  expect(isRestored(labelled(name))).toBe(false);
  expect(veleroName('short')).toBe('short');
});

const SERVERS = { group: 'infra.example.com', resource: 'servers' };
const named = (
  name: string,
  spec: Partial<RestoreWindow['spec']> = {},
  status: RestoreWindow['status'] = {},
): RestoreWindow => ({ ...window(status, spec), metadata: { ...window().metadata, name } });

test('an object belongs to each window that was open at its creation and covers its place', () => {
  const earlier = named('earlier', {}, { closedAt: '2026-11-21T12:30:00Z' });
  const shop = named('shop', { match: { namespaces: { include: ['shop'] } } });
  const disks = named('disks', { match: { resources: [{ apiGroup: '*', resource: 'disks' }] } });
  const of = (namespace?: string) =>
    restoringWindows([earlier, shop, disks], [], 0)({ ...created('13:00:00'), namespace }, SERVERS);
  expect(of('shop')).toEqual([shop]);
  expect(of('store')).toEqual([]);
  expect(of()).toEqual([]);
});

test('objects do not belong to a Manual window by a label, because only a detector knows the label', () => {
  const ref = { apiVersion: 'velero.io/v1', kind: 'Restore', resource: 'restores', name: 'r', uid: 'u' };
  const forged = window({}, { source: { type: 'Manual', detector: 'velero', ref } });
  const made = { ...created('01:00:00'), labels: { 'velero.io/restore-name': 'r' } };
  expect(restoringWindows([forged], [velero], 0)(made)).toEqual([]);
});

test.each([
  ['one window links', ['Link'], 'Link'],
  ['another window waits for an approval', ['Link', 'Report'], 'Report'],
  ['another window turns links off', ['Link', 'Report', 'Off'], 'Off'],
] as const)('the strictest mode of the windows of an object holds: %s', (_when, modes, expected) => {
  const windows = modes.map((relinkOwners, index) => named(`w${index}`, { sweep: { relinkOwners } }));
  const heldBy = windows.length === 1 ? {} : { heldBy: `w${windows.length - 1}` };
  for (const order of [windows, windows.toReversed()])
    expect(sweepMode(named('w0'), order)).toEqual({ mode: expected, ...heldBy });
});

test('a sweep leaves the objects of other windows alone', () => {
  expect(sweepMode(named('later'), [named('careful')])).toEqual({ mode: 'Off' });
  expect(sweepMode(named('later'), [])).toEqual({ mode: 'Off' });
});
