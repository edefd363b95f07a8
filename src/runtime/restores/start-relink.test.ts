import { expect, test } from 'vitest';

import type { RestoreWindow } from '../../api/restore-window.ts';
import { relinkMode } from './start-relink.ts';

const mode = (sweep?: RestoreWindow['spec']['sweep']) =>
  relinkMode({
    metadata: { name: 'w' },
    spec: { principals: [], expiresAt: '2026-11-21T18:00:00Z', ...(sweep === undefined ? {} : { sweep }) },
  });

test('owners are linked unless the window says otherwise, or a person has yet to approve', () => {
  expect(mode()).toBe('Link');
  expect(mode({ relinkOwners: 'Off' })).toBe('Off');
  expect(mode({ relinkOwners: 'Report' })).toBe('Report');
  expect(mode({ requireApprovalToLink: true })).toBe('Report');
  expect(mode({ requireApprovalToLink: true, approved: true })).toBe('Link');
  expect(mode({ relinkOwners: 'Off', requireApprovalToLink: true })).toBe('Off');
});
