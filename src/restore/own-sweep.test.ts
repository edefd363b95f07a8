import { expect, test } from 'vitest';
import { ownSweepWindow, rollbackSweep, startupSweep } from './own-sweep.ts';
import { windowProblems, windowState } from './window.ts';

const NOW = new Date('2026-03-01T12:00:00Z');

test.each([
  ['there has never been a leader', undefined, undefined],
  ['it was renewed a moment ago', '2026-03-01T11:59:58.000000Z', undefined],
  ['it was renewed ten minutes ago', '2026-03-01T11:50:00.000000Z', undefined],
  ['nobody led for longer', '2026-03-01T11:49:59.000000Z', 'startup-1772365799'],
  ['somebody wrote nonsense', 'yesterday', undefined],
  ['it comes from the future', '2026-03-02T12:00:00.000000Z', undefined],
])('of the lease: when %s, the sweep at start is %s', (_when, renewTime, name) => {
  expect(startupSweep(renewTime, NOW)).toBe(name);
});

test.each([
  [rollbackSweep(501n), 'Rollback'],
  ['startup-1772365799', 'Startup'],
])('the window %s is swept at once and defers nothing', (name, type) => {
  const window = ownSweepWindow(name, NOW);
  if (window === undefined) throw new Error('there is none');
  expect(window.metadata).toEqual({ name, labels: { 'velero.io/exclude-from-backup': 'true' } });
  expect(window.spec).toMatchObject({ source: { type }, principals: [], close: true });
  expect(windowProblems(window)).toEqual([]);
  const stored = { ...window, metadata: { ...window.metadata, creationTimestamp: NOW.toISOString() } };
  expect(windowState(stored, NOW)).toEqual({ kind: 'closed', reason: 'Manual' });
});

test.each([
  '',
  'rollback-',
  'rollback-x',
  'velero-123',
  'startup-1/../x',
  'startup-999999999999',
  'rollback-1\nx',
])('no window is made of %j', (name) => {
  expect(ownSweepWindow(name, NOW)).toBeUndefined();
});
