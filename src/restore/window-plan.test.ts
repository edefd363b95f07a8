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

const EVERYBODY = { principals: [{ group: 'system:authenticated' }] };
const OPENED = { openedAt: '2026-11-21T11:00:00.000Z' } as const;
const NEW = window(undefined);
const WAITING = window({ ...closed, ...sweep(true) });
const DIRTY = window({ ...closed, ...sweep(false), ...dirty });
const CLEAN = window({ ...closed, ...sweep(false), ...clean });
const SWEPT_EARLIER = window({ ...closed, ...sweep(false, '2026-11-21T11:00:00.000Z') });
const MOVED_BACK = window(OPENED, { expiresAt: '2026-11-21T11:30:00Z' });
const NO_TIME = window(OPENED, { expiresAt: 'tomorrow' });
const close = (time: string, reason: string) => ({ kind: 'close', at: at(time), reason });
const wait = (time: string) => ({ kind: 'wait', until: at(time) });
const MANUAL = close('12:00:00', 'Manual');
const INTERIM = { kind: 'sweep', interim: true };
const FINAL = { kind: 'sweep', interim: false };

const PLANS: readonly [string, RestoreWindow, string, object, changed?: boolean][] = [
  ['an open window waits for its end', NEW, '12:00:00', { kind: 'open', until: at('13:00:00') }],
  ['an expired window closes', NEW, '13:00:01', close('13:00:01', 'Expired')],
  ['an end in the past closes now: writes are pending', MOVED_BACK, '12:00:00', close('12:00:00', 'Expired')],
  ['a window that a user closed closes', window(undefined, { close: true }), '12:00:00', MANUAL],
  ['a closed window is swept immediately for an interim report', window(closed), '12:00:01', INTERIM],
  ['a sweep from before the close does not count', SWEPT_EARLIER, '12:00:01', INTERIM],
  ['after the interim sweep it settles', WAITING, '12:00:30', wait('12:01:05')],
  ['a change while it settles causes another interim sweep', WAITING, '12:00:30', INTERIM, true],
  ['after settling, the final sweep runs', WAITING, '12:01:05', FINAL],
  ['after an absence, the leader runs the final sweep immediately', window(closed), '14:00:00', FINAL],
  ['a result without violations completes the window', CLEAN, '15:00:00', { kind: 'done' }, true],
  ['violations are checked again', DIRTY, '12:02:30', wait('12:03:00')],
  ['a minute later', DIRTY, '12:03:00', { ...FINAL, notBefore: at('12:03:00') }],
  ['violations are checked immediately if a target appears', DIRTY, '12:02:30', FINAL, true],
  ['a window for all users is refused', window(undefined, EVERYBODY), '12:00:00', { kind: 'refuse' }],
  ['an open window that an edit made invalid closes', window(OPENED, EVERYBODY), '12:00:00', MANUAL],
  ['a window with an invalid end closes too', NO_TIME, '12:00:00', close('12:00:00', 'Expired')],
  ['a closed window is swept regardless of its spec', window(closed, EVERYBODY), '12:00:01', INTERIM],
];
test.each(PLANS)('%s', (_name, object, now, plan, changed = false) => {
  expect(planWindow(object, at(now), { changed }, times)).toMatchObject(plan);
});

const since = at('12:00:00');
const known = (activity: 'active' | 'settling' | 'over', quietSince?: Date): SourceState => ({
  kind: 'known',
  activity,
  phase: activity,
  quietSince,
});
const gone = { kind: 'gone', since } as const;
const open = window(OPENED);
const lasting = window(OPENED, { closeWithSource: false });
const sweptOpen = window({ ...OPENED, ...sweep(true) });
const quiet = known('active', since);
test.each<[string, RestoreWindow, string, SourceState | undefined, object]>([
  ['stays open while the source is active', open, '12:00:00', known('active'), { kind: 'open' }],
  ['stays open while the state of the source is unknown', open, '12:00:00', undefined, { kind: 'open' }],
  ['closes when everything is written', open, '12:00:00', known('settling'), { reason: 'SourceInactive' }],
  ['closes when the source is over', open, '12:00:00', known('over'), { kind: 'close' }],
  ['stays open if closeWithSource is false', lasting, '12:00:00', known('over'), { until: at('13:00:00') }],
  ['B7: waits a minute for writes of a deleted source', open, '12:00:59', gone, { until: at('12:01:00') }],
  ['B7: closes a minute after the source was deleted', open, '12:01:00', gone, { reason: 'SourceDeleted' }],
  ['B8: is swept when the source is quiet', open, '12:00:00', quiet, INTERIM],
  ['B8: is swept only once while the source is quiet', sweptOpen, '12:00:10', quiet, { kind: 'open' }],
  ['B5: closes at its end, regardless of the source', open, '13:00:00', quiet, { reason: 'Expired' }],
])('a window with a source %s', (_name, object, now, source, plan) => {
  expect(planWindow(object, at(now), { changed: false, source }, times)).toMatchObject(plan);
});

const swept = { ...closed, ...sweep(false), ...clean };
const approved = { sweep: { approved: true } };
const item = (result: 'OwnerMissing' | 'WouldLink' | 'NotAllowed') => {
  const object = { apiVersion: 'v1', kind: 'A', name: 'a' };
  const items = [{ object, owner: object, result }];
  return { relink: { found: 1, linked: 0, skipped: 1, failed: 0, items } };
};
test.each<[string, RestoreWindow, string]>([
  ['while an owner is missing', window({ ...swept, ...item('OwnerMissing') }), 'sweep'],
  ['if links were approved', window({ ...swept, ...item('WouldLink') }, approved), 'sweep'],
  ['not while links are not approved', window({ ...swept, ...item('WouldLink') }), 'done'],
  ['not for owners that are never linked', window({ ...swept, ...item('NotAllowed') }), 'done'],
])('a completed window is swept again %s', (_case, object, kind) => {
  expect(planWindow(object, at('15:00:00'), { changed: false }, times).kind).toBe(kind);
});

test.each([
  ['14:00:00', at('14:12:00')],
  ['23:30:00', new Date('2026-11-22T00:30:00Z')],
])('lasting violations are checked less often, at most hourly: after %s', (time, until) => {
  const stamp = `2026-11-21T${time}Z`;
  const lastSweep = { startedAt: stamp, finishedAt: stamp, objectsScanned: 1, interim: false };
  const object = window({ ...dirty, ...closed, lastSweep });
  expect(planWindow(object, at(time), { changed: false }, times)).toEqual({ kind: 'wait', until });
});

describe('a window is held until its sweep', () => {
  const held = { finalizers: ['other', SWEEP_FINALIZER] };
  const swept = (is: 'True' | 'False') => ({
    ...closed,
    ...sweep(false),
    ...dirty,
    conditions: [{ type: 'SweepComplete', status: is, reason: 'Swept', message: '', lastTransitionTime: '' }],
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
