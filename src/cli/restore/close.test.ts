import { expect, test } from 'vitest';

import type { RestoreWindow, RestoreWindowStatus } from '../../api/restore-window.ts';
import { describeClosing, whyNothingToApprove } from './close.ts';

const window = (
  status: RestoreWindowStatus = {},
  spec: Partial<RestoreWindow['spec']> = {},
): RestoreWindow => ({
  metadata: { name: 'drill' },
  spec: { principals: [{ user: 'velero' }], expiresAt: '2026-11-21T12:00:00Z', ...spec },
  status,
});

test('whoever closes learns whether it was open', () => {
  expect(describeClosing(window())).toContain('is closed: every check is enforced again');
  expect(describeClosing(window({}, { close: true }))).toContain('is being closed already');
  expect(describeClosing(window({ closedAt: '2026-11-21T11:00:00Z', closeReason: 'Expired' }))).toBe(
    'RestoreWindow "drill" was closed at 2026-11-21T11:00:00Z (Expired).',
  );
});

test('there is something to approve only where links wait for it', () => {
  expect(whyNothingToApprove(window())).toContain('without being asked');
  expect(
    whyNothingToApprove(window({}, { sweep: { relinkOwners: 'Off', requireApprovalToLink: true } })),
  ).toContain('links nothing');
  expect(whyNothingToApprove(window({}, { sweep: { requireApprovalToLink: true } }))).toBeUndefined();
});
