import { describe, expect, test } from 'vitest';

import type { RestoreWindow, RestoreWindowSpec, RestoreWindowStatus } from '../api/restore-window.ts';
import { openWindowFor, windowProblems, windowState } from './window.ts';

const now = new Date('2026-11-21T12:00:00Z');
const PLACE = { group: 'infra.example.com', resource: 'servers', namespace: 'shop' };
const velero = { username: 'system:serviceaccount:velero:velero', groups: ['system:serviceaccounts:velero'] };
const alice = { username: 'alice', groups: ['system:authenticated'] };

function window(spec: Partial<RestoreWindowSpec> = {}, status?: RestoreWindowStatus): RestoreWindow {
  return {
    metadata: { name: 'drill' },
    spec: { principals: [{ user: velero.username }], expiresAt: '2026-11-21T13:00:00Z', ...spec },
    ...(status === undefined ? {} : { status }),
  };
}

describe('a window is', () => {
  test('open until it expires', () => {
    expect(windowState(window(), now)).toEqual({ kind: 'open', until: new Date('2026-11-21T13:00:00Z') });
  });

  test.each([
    ['it has expired', window({ expiresAt: '2026-11-21T12:00:00Z' }), 'Expired'],
    ['its end is invalid', window({ expiresAt: 'tomorrow' }), 'Expired'],
    ['a user closed it', window({ close: true }), 'Manual'],
    [
      'its restore was over before it was detected',
      window({ close: true, source: { type: 'Detector' } }),
      'SourceInactive',
    ],
    [
      'a user closed it before its source was done',
      window({ close: true, source: { type: 'Detector' } }, { openedAt: '2026-11-21T11:00:00Z' }),
      'Manual',
    ],
    [
      'it was closed before, whatever its spec contains',
      window({}, { closedAt: '2026-11-21T11:00:00Z', closeReason: 'Expired' }),
      'Expired',
    ],
    [
      'it is being deleted',
      { ...window(), metadata: { name: 'drill', deletionTimestamp: '2026-11-21T11:59:00Z' } },
      'Manual',
    ],
  ])('closed if %s', (_when, closed, reason) => {
    expect(windowState(closed, now)).toMatchObject({ kind: 'closed', reason });
  });
});

describe('a requester', () => {
  test.each([
    ['the user name matches', window()],
    ['the group matches', window({ principals: [{ group: 'system:serviceaccounts:velero' }] })],
  ])('%s', (_by, open) => {
    expect(openWindowFor([open], velero, PLACE, now)).toBe(open);
    expect(openWindowFor([open], alice, PLACE, now)).toBeUndefined();
  });

  test('is never a restorer through a closed window', () => {
    expect(openWindowFor([window({ close: true })], velero, PLACE, now)).toBeUndefined();
  });

  test('is never a restorer through a window for all users', () => {
    const everybody = window({ principals: [{ group: 'system:authenticated' }] });
    expect(windowProblems(everybody)).toHaveLength(1);
    expect(openWindowFor([everybody], alice, PLACE, now)).toBeUndefined();
  });

  test('is never a restorer through a principal with both a user and a group, or neither', () => {
    const both = window({ principals: [{ user: 'alice', group: 'x' }] });
    const neither = window({ principals: [{}] });
    expect(openWindowFor([both, neither], alice, PLACE, now)).toBeUndefined();
  });
});
