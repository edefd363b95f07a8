import { describe, expect, test } from 'vitest';
import type { RestoreWindow, RestoreWindowSpec, RestoreWindowStatus } from '../api/restore-window.ts';
import {
  mayRestoreIn,
  openedForCluster,
  OPENED_BY,
  openWindowsFor,
  relinkMode,
  windowProblems,
  windowState,
} from './window.ts';

const now = new Date('2026-11-21T12:00:00Z');
const PLACE = { group: 'infra.example.com', resource: 'servers', namespace: 'shop' };
const velero = { username: 'system:serviceaccount:velero:velero', groups: ['system:serviceaccounts:velero'] };
const alice = { username: 'alice', groups: ['system:authenticated'] };

function window(spec: Partial<RestoreWindowSpec> = {}, status?: RestoreWindowStatus): RestoreWindow {
  return openedForCluster({
    metadata: { name: 'drill' },
    spec: { principals: [{ user: velero.username }], expiresAt: '2026-11-21T13:00:00Z', ...spec },
    ...(status === undefined ? {} : { status }),
  });
}

describe('a window is', () => {
  test('open until it expires', () => {
    expect(windowState(window(), now)).toEqual({ kind: 'open', until: new Date('2026-11-21T13:00:00Z') });
  });

  const detected = { close: true, source: { type: 'Detector' } } as const;
  const opened = { openedAt: '2026-11-21T11:00:00Z' };
  const before = { closedAt: '2026-11-21T11:00:00Z', closeReason: 'Expired' } as const;
  const deleted = { name: 'drill', deletionTimestamp: '2026-11-21T11:59:00Z' };

  test.each<[string, RestoreWindow, string]>([
    ['it has expired', window({ expiresAt: '2026-11-21T12:00:00Z' }), 'Expired'],
    ['its end is invalid', window({ expiresAt: 'tomorrow' }), 'Expired'],
    ['a user closed it', window({ close: true }), 'Manual'],
    ['its restore was over before it was detected', window(detected), 'SourceInactive'],
    ['a user closed it before its source was done', window(detected, opened), 'Manual'],
    ['it was closed before, regardless of its spec', window({}, before), 'Expired'],
    ['it is being deleted', { ...window(), metadata: deleted }, 'Manual'],
  ])('closed if %s', (_when, closed, reason) => {
    expect(windowState(closed, now)).toMatchObject({ kind: 'closed', reason });
  });
});

const mode = (sweep: RestoreWindowSpec['sweep'] = {}) => relinkMode({ sweep });

test('owners are linked unless the window turns it off or waits for approval', () => {
  expect(mode()).toBe('Link');
  expect(mode({ relinkOwners: 'Off' })).toBe('Off');
  expect(mode({ relinkOwners: 'Report' })).toBe('Report');
  expect(mode({ requireApprovalToLink: true })).toBe('Report');
  expect(mode({ requireApprovalToLink: true, approved: true })).toBe('Link');
  expect(mode({ relinkOwners: 'Off', requireApprovalToLink: true })).toBe('Off');
});

describe('a requester', () => {
  test.each([
    ['the user name matches', window()],
    ['the group matches', window({ principals: [{ group: 'system:serviceaccounts:velero' }] })],
  ])('%s', (_by, open) => {
    expect(openWindowsFor([open], velero, PLACE, now)).toEqual([open]);
    expect(openWindowsFor([open], alice, PLACE, now)).toEqual([]);
  });

  test('is never a restorer through a closed window', () => {
    expect(openWindowsFor([window({ close: true })], velero, PLACE, now)).toEqual([]);
  });

  test('is never a restorer through a window for all users', () => {
    const everybody = window({ principals: [{ group: 'system:authenticated' }] });
    expect(windowProblems(everybody)).toHaveLength(1);
    expect(openWindowsFor([everybody], alice, PLACE, now)).toEqual([]);
  });

  test('is never a restorer through a principal with both a user and a group, or neither', () => {
    const both = window({ principals: [{ user: 'alice', group: 'x' }] });
    const neither = window({ principals: [{}] });
    expect(openWindowsFor([both, neither], alice, PLACE, now)).toEqual([]);
  });

  test.each<[string, RestoreWindowSpec['principals'], readonly string[], string | undefined, boolean]>([
    ['without a namespace', [{ user: 'alice' }], [], 'alice', false],
    ['of its opener', [{ user: 'alice' }], ['shop'], 'alice', true],
    ['of another opener', [{ user: 'alice' }], ['shop'], 'bob', false],
    ['of an unknown opener', [{ user: 'alice' }], ['shop'], undefined, false],
    ['with a group of the requester', [{ group: 'system:authenticated' }], ['shop'], 'alice', false],
  ])('in a window without a record of the webhook, %s', (_which, principals, include, opener, restores) => {
    const { spec } = window({ principals, match: { namespaces: { include: [...include] } } });
    const annotations = opener === undefined ? {} : { [OPENED_BY]: opener };
    const stored = { metadata: { name: 'drill', annotations }, spec };
    expect(openWindowsFor([stored], alice, PLACE, now)).toEqual(restores ? [stored] : []);
  });

  test('restores in all windows that cover the place, not only in the first', () => {
    const [narrow, wide] = [window({ match: { operations: ['UPDATE'] } }), window()];
    const elsewhere = window({ match: { namespaces: { include: ['store'] } } });
    expect(openWindowsFor([narrow, elsewhere, wide], velero, PLACE, now)).toEqual([narrow, wide]);
  });
});

test('a window that a user opened for namespaces restores only there', () => {
  const spec = { match: { namespaces: { include: ['shop'] } } };
  const tenants = { ...window(spec), metadata: { name: 'tenant' } };
  const places = (one: RestoreWindow) =>
    ['shop', 'spa', undefined].filter((place) => mayRestoreIn(one, place));
  expect(places(tenants)).toEqual(['shop']);
  for (const one of [
    window(spec),
    { ...window(), metadata: {} },
    window({ ...spec, source: { type: 'Detector' } }),
  ])
    expect(places(one)).toEqual(['shop', 'spa', undefined]);
});
