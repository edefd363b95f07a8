import { expect, test } from 'vitest';

import type { RestoreWindow, RestoreWindowStatus } from '../../api/restore-window.ts';
import { isFinal } from './window-status.ts';

const window = (status: RestoreWindowStatus = {}): RestoreWindow => ({
  metadata: { name: 'drill' },
  spec: { principals: [{ user: 'velero' }], expiresAt: '2026-11-21T12:00:00Z' },
  status,
});

const sweep = (interim: boolean): RestoreWindowStatus => ({
  lastSweep: { startedAt: '', finishedAt: '', objectsScanned: 0, interim },
});

test('a report is final after the final sweep', () => {
  expect(isFinal(window())).toBe(false);
  expect(isFinal(window({ ...sweep(true), phase: 'Settling' }))).toBe(false);
  expect(isFinal(window({ ...sweep(true), phase: 'Completed' }))).toBe(false);
  expect(isFinal(window({ ...sweep(false), phase: 'CompletedWithViolations' }))).toBe(true);
});
