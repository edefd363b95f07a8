import { expect, test } from 'vitest';
import {
  assessLease,
  toNumber,
  type LeaseHistory,
  type LeaseObservation,
  type LeaseAssessment,
  ownSweepWindow,
  rollbackSweep,
  startupSweep,
} from './rollback.ts';
import { windowProblems, windowState } from './window.ts';

const sight = (epoch?: number, version?: number, rollback?: string): LeaseObservation => ({
  epoch: epoch === undefined ? undefined : BigInt(epoch),
  resourceVersion: version === undefined ? undefined : BigInt(version),
  rollback,
});

/** The assessments of successive observations. */
function look(...sights: readonly LeaseObservation[]): readonly LeaseAssessment[] {
  let memory: LeaseHistory | undefined;
  return sights.map((one) => {
    const verdict = assessLease(memory, one);
    memory = verdict.memory;
    return verdict;
  });
}

const each =
  (textOf: (one: LeaseAssessment) => string) =>
  (...sights: readonly LeaseObservation[]) =>
    look(...sights)
      .map(textOf)
      .join(' ');
const evidence = each(({ rollback }) => rollback?.evidence ?? 'none');
const progressOf = each(({ progress }) => progress);

test('a lease that is renewed again and again shows no rollback', () => {
  const sights = [sight(7, 100), sight(8, 104), sight(8, 104), sight(9, 120)];
  expect(evidence(...sights)).toBe('none none none none');
  expect(progressOf(...sights)).toBe('forward forward unchanged forward');
});

test.each([
  ['epoch and resourceVersion', sight(300, 5_000), 'Epoch'],
  ['the epoch, although etcd skipped revisions', sight(300, 1_000_006_000), 'Epoch'],
  ['the resourceVersion, without an epoch', sight(undefined, 5_000), 'ResourceVersion'],
])('F11: a lease that went back in %s is a rollback', (_what, now, by) => {
  const [, verdict] = look(sight(500, 6_000), now);
  expect(verdict?.rollback?.evidence).toBe(by);
  expect(verdict?.progress).toBe('back');
});

test('the next epoch exceeds all earlier ones, so that an old copy is never mistaken for the new Lease', () => {
  expect(look(sight(500, 6_000), sight(300, 5_000)).at(-1)?.memory.highest).toBe(500n);
});

test('one rollback is reported once, and the copy stays `back` until a leader exceeds all earlier epochs', () => {
  const copy = sight(300, 5_000);
  const sights = [sight(500, 6_000), copy, copy, sight(301, 5_004), sight(501, 5_008)];
  expect(evidence(...sights)).toBe('none Epoch none none none');
  expect(progressOf(...sights)).toBe('forward back back back forward');
});

test('a replica that missed the old copy learns of the rollback', () => {
  expect(evidence(sight(500, 6_000), sight(501, 5_004, '501'))).toBe('none ResourceVersion');
  expect(evidence(sight(500, 6_000), sight(501, 1_000_006_004, '501'))).toBe('none Told');
  const told = [sight(501, 1_000_006_004, '501'), sight(502, 1_000_006_008, '501')];
  expect(evidence(...told)).toBe('none none');
});

test('a replica that saw the rollback does not report it again, and notices the announcement', () => {
  const sights = [sight(500, 6_000), sight(300, 5_000), sight(501, 5_004, '501'), sight(502, 5_008, '501')];
  expect(evidence(...sights)).toBe('none Epoch none none');
  expect(look(...sights).map(({ memory }) => memory.unannounced)).toEqual([false, true, false, false]);
});

test('an invalid number is unknown and never a rollback', () => {
  const nothing = { epoch: toNumber('x'), resourceVersion: toNumber('aGk='), rollback: undefined };
  expect(evidence(sight(500, 6_000), nothing, sight(501, 6_004))).toBe('none none none');
  expect(progressOf(sight(500, 6_000), nothing)).toBe('forward unchanged');
});

test.each([
  [
    'a second rollback is reported again',
    [sight(500, 6_000), sight(300, 5_000), sight(501, 5_004), sight(300, 5_000)],
    'none Epoch none Epoch',
  ],
  ['a replica ignores announcements from before its start', [sight(900, 6_000, '501')], 'none'],
  [
    'a removed annotation does not hide a later rollback of the epoch',
    [sight(500, 6_000), sight(undefined, 6_004), sight(300, 6_008)],
    'none none Epoch',
  ],
])('%s', (_what, sights, expected) => {
  expect(evidence(...sights)).toBe(expected);
});

test.each([
  ['12', 12n],
  ['9007199254740993', 9_007_199_254_740_993n],
  ['', undefined],
  ['-1', undefined],
  ['1e3', undefined],
  ['1'.repeat(31), undefined],
  [undefined, undefined],
])('%j is parsed as %s', (text, number) => {
  expect(toNumber(text)).toBe(number);
});

const NOW = new Date('2026-03-01T12:00:00Z');

test.each([
  ['there has never been a leader', undefined, undefined],
  ['the Lease was renewed a moment ago', '2026-03-01T11:59:58.000000Z', undefined],
  ['the Lease was renewed ten minutes ago', '2026-03-01T11:50:00.000000Z', undefined],
  ['there was no leader for longer', '2026-03-01T11:49:59.000000Z', 'startup-1772365799'],
  ['the time is invalid', 'yesterday', undefined],
  ['the renewal is in the future', '2026-03-02T12:00:00.000000Z', undefined],
])('if %s, the sweep at startup is %s', (_when, renewTime, name) => {
  expect(startupSweep(renewTime, NOW)).toBe(name);
});

test.each([
  [rollbackSweep(501n), 'Rollback'],
  ['startup-1772365799', 'Startup'],
])('the window %s is swept immediately and defers nothing', (name, type) => {
  const window = ownSweepWindow(name, NOW);
  if (window === undefined) throw new Error('there is none');
  const labels = { 'velero.io/exclude-from-backup': 'true' };
  expect(window.metadata).toEqual({ name, labels, finalizers: ['gatehouse.dev/sweep'] });
  expect(window.spec).toMatchObject({ source: { type }, principals: [], close: true });
  expect(windowProblems(window)).toEqual([]);
  const stored = { ...window, metadata: { ...window.metadata, creationTimestamp: NOW.toISOString() } };
  expect(windowState(stored, NOW)).toEqual({ kind: 'closed', reason: 'Manual' });
});

test.each([
  ...['', 'rollback-', 'rollback-x', 'velero-123', 'rollback-1\nx'],
  ...['startup-1/../x', 'startup-999999999999'],
])('%j is not the name of a sweep window', (name) => {
  expect(ownSweepWindow(name, NOW)).toBeUndefined();
});
