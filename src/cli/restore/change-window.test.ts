import { expect, test } from 'vitest';

import type { RestoreWindow, RestoreWindowStatus } from '../../api/restore-window.ts';
import { describeClosing, whyNothingToApprove } from './change-window.ts';

const window = (
  status: RestoreWindowStatus = {},
  spec: Partial<RestoreWindow['spec']> = {},
): RestoreWindow => ({
  metadata: { name: 'drill' },
  spec: { principals: [{ user: 'velero' }], expiresAt: '2026-11-21T12:00:00Z', ...spec },
  status,
});

test('close reports whether the window was open', () => {
  expect(describeClosing(window())).toContain('is closed: all checks are enforced again');
  expect(describeClosing(window({}, { close: true }))).toContain('is already closing');
  expect(describeClosing(window({ closedAt: '2026-11-21T11:00:00Z', closeReason: 'Expired' }))).toBe(
    'RestoreWindow "drill" was closed at 2026-11-21T11:00:00Z (Expired).',
  );
});

test('only a window that requires approval can be approved', () => {
  expect(whyNothingToApprove(window())).toContain('without approval');
  expect(
    whyNothingToApprove(window({}, { sweep: { relinkOwners: 'Off', requireApprovalToLink: true } })),
  ).toContain('links no owners');
  expect(whyNothingToApprove(window({}, { sweep: { requireApprovalToLink: true } }))).toBeUndefined();
});
