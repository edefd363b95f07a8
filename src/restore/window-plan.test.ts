import { describe, expect, test } from 'vitest';

import type { RestoreWindow, RestoreWindowStatus } from '../api/restore-window.ts';
import { SWEEP_FINALIZER } from './window.ts';
import { planWindow, type SourceState } from './window-plan.ts';

const times = { settleMs: 65_000, recheckMs: 60_000 };
const at = (time: string) => new Date(`2026-11-21T${time}Z`);

function window(
  status: RestoreWindowStatus | undefined,
  spec: Partial<RestoreWindow['spec']> = {},
  metadata: Partial<RestoreWindow['metadata']> = {},
): RestoreWindow {
  const finalizers = status?.lastSweep?.interim === false ? [] : [SWEEP_FINALIZER];
  return {
    metadata: { name: 'drill', finalizers, ...metadata },
    spec: { principals: [{ user: 'velero' }], expiresAt: '2026-11-21T13:00:00Z', ...spec },
    ...(status === undefined ? {} : { status }),
  };
}

const closed = { closedAt: '2026-11-21T12:00:00.000Z', closeReason: 'Manual' } as const;
const sweep = (interim: boolean, startedAt = '2026-11-21T12:00:05.000Z') => ({
  lastSweep: { startedAt, finishedAt: '2026-11-21T12:02:00.000Z', objectsScanned: 1, interim },
});
const clean = { phase: 'Completed' } as const;
const dirty = { phase: 'CompletedWithViolations' } as const;

test.each<[string, RestoreWindow, Date, boolean, object]>([
  [
    'an open window waits for its end',
    window(undefined),
    at('12:00:00'),
    false,
    { kind: 'open', until: at('13:00:00') },
  ],
  [
    'an expired window closes',
    window(undefined),
    at('13:00:01'),
    false,
    { kind: 'close', at: at('13:00:01'), reason: 'Expired' },
  ],
  [
    'a window whose end was moved into the past closes now, so that pending writes are waited for',
    window({ openedAt: '2026-11-21T11:00:00.000Z' }, { expiresAt: '2026-11-21T11:30:00Z' }),
    at('12:00:00'),
    false,
    { kind: 'close', at: at('12:00:00'), reason: 'Expired' },
  ],
  [
    'a window that a user closed closes',
    window(undefined, { close: true }),
    at('12:00:00'),
    false,
    { kind: 'close', at: at('12:00:00'), reason: 'Manual' },
  ],
  [
    'a closed window is swept at once for an interim report',
    window(closed),
    at('12:00:01'),
    false,
    { kind: 'sweep', interim: true },
  ],
  [
    'a sweep from before the close does not count',
    window({ ...closed, ...sweep(false, '2026-11-21T11:00:00.000Z') }),
    at('12:00:01'),
    false,
    { kind: 'sweep', interim: true },
  ],
  [
    'after the interim sweep it settles',
    window({ ...closed, ...sweep(true) }),
    at('12:00:30'),
    false,
    { kind: 'wait', until: at('12:01:05') },
  ],
  [
    'a change while it settles causes another interim sweep',
    window({ ...closed, ...sweep(true) }),
    at('12:00:30'),
    true,
    { kind: 'sweep', interim: true },
  ],
  [
    'after settling, the final sweep runs',
    window({ ...closed, ...sweep(true) }),
    at('12:01:05'),
    false,
    { kind: 'sweep', interim: false },
  ],
  [
    'after an absence, the leader runs the final sweep at once',
    window(closed),
    at('14:00:00'),
    false,
    { kind: 'sweep', interim: false },
  ],
  [
    'a result without violations completes the window',
    window({ ...closed, ...sweep(false), ...clean }),
    at('15:00:00'),
    true,
    { kind: 'done' },
  ],
  [
    'violations are checked again',
    window({ ...closed, ...sweep(false), ...dirty }),
    at('12:02:30'),
    false,
    { kind: 'wait', until: at('12:03:00') },
  ],
  [
    'violations are checked at once if a target appears',
    window({ ...closed, ...sweep(false), ...dirty }),
    at('12:02:30'),
    true,
    { kind: 'sweep', interim: false },
  ],
  [
    'a window for all users is refused',
    window(undefined, { principals: [{ group: 'system:authenticated' }] }),
    at('12:00:00'),
    false,
    { kind: 'refuse' },
  ],
  [
    'an open window that an edit made invalid closes: its writes are swept',
    window({ openedAt: '2026-11-21T11:00:00.000Z' }, { principals: [{ group: 'system:authenticated' }] }),
    at('12:00:00'),
    false,
    { kind: 'close', at: at('12:00:00'), reason: 'Manual' },
  ],
  [
    'a window with an invalid end closes too',
    window({ openedAt: '2026-11-21T11:00:00.000Z' }, { expiresAt: 'tomorrow' }),
    at('12:00:00'),
    false,
    { kind: 'close', at: at('12:00:00'), reason: 'Expired' },
  ],
  [
    'a closed window is swept, whatever its spec contains',
    window(closed, { principals: [{ group: 'system:authenticated' }] }),
    at('12:00:01'),
    false,
    { kind: 'sweep', interim: true },
  ],
])('%s', (_name, object, now, changed, plan) => {
  expect(planWindow(object, now, { changed }, times)).toMatchObject(plan);
});

describe('a window with a source', () => {
  const since = at('12:00:00');
  const opened = { openedAt: '2026-11-21T11:00:00.000Z' } as const;
  const known = (activity: 'active' | 'settling' | 'over', quietSince?: Date): SourceState => ({
    kind: 'known',
    activity,
    phase: activity,
    quietSince,
  });
  test.each<[string, RestoreWindow, Date, SourceState | undefined, object]>([
    [
      'stays open while the source is active',
      window(opened),
      at('12:00:00'),
      known('active'),
      { kind: 'open' },
    ],
    [
      'stays open while the state of the source is unknown',
      window(opened),
      at('12:00:00'),
      undefined,
      { kind: 'open' },
    ],
    [
      'closes when everything is written',
      window(opened),
      at('12:00:00'),
      known('settling'),
      { kind: 'close', reason: 'SourceInactive' },
    ],
    ['closes when the source is over', window(opened), at('12:00:00'), known('over'), { kind: 'close' }],
    [
      'stays open if closeWithSource is false',
      window(opened, { closeWithSource: false }),
      at('12:00:00'),
      known('over'),
      { kind: 'open', until: at('13:00:00') },
    ],
    [
      'B7: waits a minute for writes of a deleted source',
      window(opened),
      at('12:00:59'),
      { kind: 'gone', since },
      { kind: 'open', until: at('12:01:00') },
    ],
    [
      'B7: closes a minute after the source was deleted',
      window(opened),
      at('12:01:00'),
      { kind: 'gone', since },
      { kind: 'close', reason: 'SourceDeleted' },
    ],
    [
      'B8: is swept when the source is quiet',
      window(opened),
      at('12:00:00'),
      known('active', since),
      { kind: 'sweep', interim: true },
    ],
    [
      'B8: is swept only once while the source is quiet',
      window({ ...opened, ...sweep(true) }),
      at('12:00:10'),
      known('active', since),
      { kind: 'open' },
    ],
    [
      'B5: closes at its end, regardless of the source',
      window(opened),
      at('13:00:00'),
      known('active'),
      { kind: 'close', reason: 'Expired' },
    ],
  ])('%s', (_name, object, now, source, plan) => {
    expect(planWindow(object, now, { changed: false, source }, times)).toMatchObject(plan);
  });
});

describe('a completed window is swept again', () => {
  const swept = { ...closed, ...sweep(false), ...clean };
  const item = (result: 'OwnerMissing' | 'WouldLink' | 'NotAllowed') => ({
    relink: {
      ...{ found: 1, linked: 0, skipped: 1, failed: 0 },
      items: [
        {
          object: { apiVersion: 'v1', kind: 'A', name: 'a' },
          owner: { apiVersion: 'v1', kind: 'B', name: 'b' },
          result,
        },
      ],
    },
  });
  test.each<[string, RestoreWindow, string]>([
    ['while an owner is missing', window({ ...swept, ...item('OwnerMissing') }), 'sweep'],
    [
      'if links were approved',
      window({ ...swept, ...item('WouldLink') }, { sweep: { approved: true } }),
      'sweep',
    ],
    ['not while links are not approved', window({ ...swept, ...item('WouldLink') }), 'done'],
    ['not for owners that are never linked', window({ ...swept, ...item('NotAllowed') }), 'done'],
  ])('%s', (_case, object, kind) => {
    expect(planWindow(object, at('15:00:00'), { changed: false }, times).kind).toBe(kind);
  });
});

test('lasting violations are checked less and less often, down to once an hour', () => {
  const finishedAt = (time: string) => ({
    ...dirty,
    ...closed,
    lastSweep: {
      startedAt: `2026-11-21T${time}Z`,
      finishedAt: `2026-11-21T${time}Z`,
      objectsScanned: 1,
      interim: false,
    },
  });
  expect(planWindow(window(finishedAt('14:00:00')), at('14:00:00'), { changed: false }, times)).toEqual({
    kind: 'wait',
    until: at('14:12:00'),
  });
  expect(planWindow(window(finishedAt('23:30:00')), at('23:30:00'), { changed: false }, times)).toEqual({
    kind: 'wait',
    until: new Date('2026-11-22T00:30:00Z'),
  });
});

describe('a window is held until its sweep', () => {
  const held = { finalizers: ['other', SWEEP_FINALIZER] };
  const swept = (is: 'True' | 'False') => ({
    ...closed,
    ...sweep(false),
    ...dirty,
    conditions: [
      {
        type: 'SweepComplete',
        status: is,
        reason: 'Swept',
        message: '',
        lastTransitionTime: '2026-11-21T12:02:00Z',
      },
    ],
  });
  const planOf = (object: RestoreWindow, now = at('12:02:30')) =>
    planWindow(object, now, { changed: false }, times).kind;

  test('before it opens, if the webhook did not do so', () => {
    expect(planOf(window(undefined, {}, { finalizers: [] }))).toBe('hold');
    expect(planOf(window(undefined))).toBe('open');
  });

  test('before it closes, if no leader saw it open', () => {
    const ended = { close: true };
    expect(planOf(window(undefined, ended, { finalizers: [] }))).toBe('hold');
    expect(planOf(window(undefined, {}, { finalizers: [] }), at('14:00:00'))).toBe('hold');
    expect(planOf(window(undefined, ended))).toBe('close');
  });

  test('unless it is being deleted: the API server refuses new finalizers', () => {
    const deleted = { finalizers: ['other'], deletionTimestamp: '2026-11-21T12:00:00Z' };
    expect(planOf(window(undefined, {}, deleted))).toBe('close');
  });

  test.each([
    ['a user deletes it while it is open', window({ openedAt: '2026-11-21T11:00:00.000Z' }), 'close'],
    ['its writes may still be stored', window(closed), 'sweep'],
    ['only an interim sweep is there', window({ ...closed, ...sweep(true) }), 'sweep'],
    ['the final sweep could not read everything', window(swept('False'), {}, held), 'wait'],
  ])('while %s', (_why, object, kind) => {
    const deletionTimestamp = '2026-11-21T12:00:00Z';
    expect(planOf({ ...object, metadata: { ...object.metadata, deletionTimestamp } })).toBe(kind);
  });

  test('and released after it, even with violations', () => {
    expect(planOf(window(swept('True'), {}, held))).toBe('release');
    expect(planOf(window(swept('True')))).toBe('wait');
  });

  test('and released when it was refused: it deferred nothing', () => {
    const refused = { principals: [{ group: 'system:authenticated' }] };
    expect(planOf(window(undefined, refused))).toBe('refuse');
    expect(planOf(window({ phase: 'Refused' }, refused))).toBe('release');
    expect(planOf(window({ phase: 'Refused' }, refused, { finalizers: [] }))).toBe('refuse');
  });
});
