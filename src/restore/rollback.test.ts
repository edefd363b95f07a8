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

const evidence = (...sights: readonly LeaseObservation[]) =>
  look(...sights).map(({ rollback }) => rollback?.evidence);
const progressOf = (...sights: readonly LeaseObservation[]) =>
  look(...sights).map(({ progress }) => progress);

test('a lease that is renewed again and again shows no rollback', () => {
  const sights = [sight(7, 100), sight(8, 104), sight(8, 104), sight(9, 120)];
  expect(evidence(...sights)).toEqual([undefined, undefined, undefined, undefined]);
  expect(progressOf(...sights)).toEqual(['forward', 'forward', 'unchanged', 'forward']);
});

test.each([
  ['epoch and resourceVersion', sight(300, 5_000), 'Epoch'],
  ['the epoch, where etcd skipped ahead in its revisions', sight(300, 1_000_006_000), 'Epoch'],
  ['the resourceVersion, where the epoch is gone', sight(undefined, 5_000), 'ResourceVersion'],
])('F11: a lease that went back in %s is a rollback', (_what, now, by) => {
  const [, verdict] = look(sight(500, 6_000), now);
  expect(verdict?.rollback?.evidence).toBe(by);
  expect(verdict?.progress).toBe('back');
});

test('the next epoch is above all that were ever seen, so that nobody takes the new time for the old', () => {
  expect(look(sight(500, 6_000), sight(300, 5_000)).at(-1)?.memory.highest).toBe(500n);
});

test('one rollback is reported once, also while the old copy stays and when somebody goes on from it', () => {
  const copy = sight(300, 5_000);
  expect(evidence(sight(500, 6_000), copy, copy, sight(301, 5_004))).toEqual([
    undefined,
    'Epoch',
    undefined,
    undefined,
  ]);
});

test('an old copy stays one, however often it is looked at, until a leader goes on above all epochs', () => {
  const copy = sight(300, 5_000);
  expect(progressOf(sight(500, 6_000), copy, copy, sight(301, 5_004), sight(501, 5_008))).toEqual([
    'forward',
    'back',
    'back',
    'back',
    'forward',
  ]);
});

test('a second rollback is another one', () => {
  expect(evidence(sight(500, 6_000), sight(300, 5_000), sight(501, 5_004), sight(300, 5_000))).toEqual([
    undefined,
    'Epoch',
    undefined,
    'Epoch',
  ]);
});

test('a replica that looked too late to see the old copy is told', () => {
  expect(evidence(sight(500, 6_000), sight(501, 5_004, '501'))).toEqual([undefined, 'ResourceVersion']);
  expect(evidence(sight(500, 6_000), sight(501, 1_000_006_004, '501'))).toEqual([undefined, 'Told']);
  expect(evidence(sight(501, 1_000_006_004, '501'), sight(502, 1_000_006_008, '501'))).toEqual([
    undefined,
    undefined,
  ]);
});

test('a replica that saw it itself is not told again, and knows when it has been announced', () => {
  const verdicts = look(
    sight(500, 6_000),
    sight(300, 5_000),
    sight(501, 5_004, '501'),
    sight(502, 5_008, '501'),
  );
  expect(verdicts.map(({ rollback }) => rollback?.evidence)).toEqual([
    undefined,
    'Epoch',
    undefined,
    undefined,
  ]);
  expect(verdicts.map(({ memory }) => memory.unannounced)).toEqual([false, true, false, false]);
});

test('the announcement of a rollback that was before one started is no news', () => {
  expect(evidence(sight(900, 6_000, '501'))).toEqual([undefined]);
});

test('what is not a number is unknown, never a rollback', () => {
  const nothing: LeaseObservation = {
    epoch: toNumber('x'),
    resourceVersion: toNumber('aGk='),
    rollback: undefined,
  };
  expect(evidence(sight(500, 6_000), nothing, sight(501, 6_004))).toEqual([undefined, undefined, undefined]);
  expect(progressOf(sight(500, 6_000), nothing)).toEqual(['forward', 'unchanged']);
});

test('an annotation that was taken away hides no rollback of the epoch after it', () => {
  expect(evidence(sight(500, 6_000), sight(undefined, 6_004), sight(300, 6_008)).at(-1)).toBe('Epoch');
});

test.each([
  ['12', 12n],
  ['9007199254740993', 9_007_199_254_740_993n],
  ['', undefined],
  ['-1', undefined],
  ['1e3', undefined],
  ['1'.repeat(31), undefined],
  [undefined, undefined],
])('of %j the number is %s', (text, number) => {
  expect(toNumber(text)).toBe(number);
});

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
