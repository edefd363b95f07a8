import { describe, expect, test } from 'vitest';

import type { RestoreDetector } from '../api/restore-detector.ts';
import { detectedWindow } from './detected-window.ts';
import { detectorProblems, isEnabled, isTrusted, readSource, timesOf } from './detector.ts';
import { detectorsOf, evidenceOfSources } from './evidence.ts';

const digest = (text: string) => Buffer.from(text).toString('hex').padEnd(64, '0');
const detector = (spec: Partial<RestoreDetector['spec']> = {}): RestoreDetector => ({
  metadata: { name: 'velero', creationTimestamp: '2026-11-21T10:00:00Z' },
  spec: {
    watch: { apiGroup: 'velero.io', version: 'v1', resource: 'restores' },
    namespaces: ['velero'],
    phasePath: 'status.phase',
    startPath: 'status.startTimestamp',
    activeValues: ['InProgress'],
    settlingValues: ['Finalizing'],
    terminalValues: ['Completed', 'Failed'],
    progress: { donePath: 'status.progress.itemsRestored', totalPath: 'status.progress.totalItems' },
    namespaceMappingPath: 'spec.namespaceMapping',
    principals: [{ group: 'system:serviceaccounts:velero' }],
    ...spec,
  },
});
const restore = (status: object, spec: object = {}, namespace = 'velero') => ({
  apiVersion: 'velero.io/v1',
  kind: 'Restore',
  metadata: { namespace, name: 'nightly', uid: 'u1', creationTimestamp: '2026-11-21T11:00:00Z' },
  spec,
  status,
});
const NOW = new Date('2026-11-21T12:00:00Z');
const RUNNING = restore({ phase: 'InProgress', startTimestamp: '2026-11-21T11:30:00Z' });
const velero = { username: 'system:serviceaccount:velero:x', groups: ['system:serviceaccounts:velero'] };
const place = { group: 'infra.example.com', resource: 'servers', namespace: 'shop' };

test.each([
  [undefined, 'new'],
  ['New', 'new'],
  ['InProgress', 'active'],
  ['Finalizing', 'settling'],
  ['Completed', 'over'],
  ['Dancing', 'unknown'],
])('a restore in phase %s is %s', (phase, activity) => {
  expect(readSource(detector(), restore(phase === undefined ? {} : { phase })).activity).toBe(activity);
});

test('a restore has a start, progress and a namespace mapping', () => {
  const source = readSource(
    detector(),
    restore(
      {
        phase: 'InProgress',
        startTimestamp: '2026-11-21T11:30:00Z',
        progress: { itemsRestored: 3, totalItems: 3 },
      },
      { namespaceMapping: { prod: 'prod-copy', bad: 7 } },
    ),
  );
  expect(source).toMatchObject({
    startedAt: new Date('2026-11-21T11:30:00Z'),
    allWritten: true,
    namespaceMapping: { prod: 'prod-copy' },
  });
  expect(readSource(detector(), restore({}))).toMatchObject({
    startedAt: new Date('2026-11-21T11:00:00Z'),
    allWritten: false,
    namespaceMapping: {},
  });
});

test('every replica builds the same window for a source', () => {
  const made = detectedWindow(detector(), readSource(detector(), RUNNING), digest);
  expect(made).toEqual(detectedWindow(detector(), readSource(detector(), RUNNING), digest));
  expect(made).toMatchObject({
    metadata: {
      name: `velero-${digest('u1').slice(0, 12)}`,
      labels: { 'velero.io/exclude-from-backup': 'true', 'gatehouse.dev/source': 'velero' },
    },
    spec: {
      source: { type: 'Detector', detector: 'velero', ref: { kind: 'Restore', name: 'nightly', uid: 'u1' } },
      match: { operations: ['CREATE', 'UPDATE'] },
      expiresAt: '2026-11-21T17:30:00Z',
    },
  });
});

describe('evidence', () => {
  const evidence = (object: object, spec: Partial<RestoreDetector['spec']> = {}, at = NOW, who = velero) =>
    evidenceOfSources(detector(spec), [object], who, place, at, digest);

  test('B1: is an active restore, even before its window exists', () => {
    expect(evidence(RUNNING)).toMatchObject({ operations: ['CREATE', 'UPDATE'], enforced: [] });
  });

  test.each<[string, object | undefined]>([
    ['F7: a restore in an untrusted namespace', evidence(restore({ phase: 'InProgress' }, {}, 'team-a'))],
    ['a restore that is finalizing', evidence(restore({ phase: 'Finalizing' }))],
    ['a restore that is over', evidence(restore({ phase: 'Completed' }))],
    ['F5: a restore that began too long ago', evidence(RUNNING, {}, new Date('2026-11-21T17:30:01Z'))],
    ['a restore by another user', evidence(RUNNING, {}, NOW, { username: 'alice', groups: [] })],
    ['a restore in another namespace', evidence(RUNNING, { scope: { mode: 'SourceNamespace' } })],
  ])('is not %s', (_which, found) => {
    expect(found).toBeUndefined();
  });

  test('ignores a source with a closed window, and finds other restores', () => {
    const other = { ...RUNNING, metadata: { namespace: 'velero', name: 'other', uid: 'u2' } };
    const windowOf = (uid: string) => `velero-${digest(uid).slice(0, 12)}`;
    const isClosed = (window: string) => window === windowOf('u1');
    const found = (objects: readonly object[]) =>
      evidenceOfSources(detector(), objects, velero, place, NOW, digest, isClosed)?.window;
    expect(found([RUNNING])).toBeUndefined();
    expect(found([RUNNING, other])).toBe(windowOf('u2'));
  });

  test('is searched for only if the requester may be the backup tool', () => {
    expect(detectorsOf([detector()], velero)).toHaveLength(1);
    expect(detectorsOf([detector()], { username: 'alice', groups: [] })).toEqual([]);
    expect(detectorsOf([detector({ namespaces: [] })], velero)).toEqual([]);
  });
});

describe('a detector', () => {
  test('trusts the namespaces in its spec, and is disabled without namespaces', () => {
    expect([isTrusted(detector(), 'velero'), isTrusted(detector(), 'team-a')]).toEqual([true, false]);
    expect([isEnabled(detector()), isEnabled(detector({ namespaces: [] }))]).toEqual([true, false]);
  });

  test('has its durations in milliseconds', () => {
    expect(timesOf(detector({ window: { maxDuration: '1h30m', idle: '5s' } }))).toEqual({
      maxDurationMs: 5_400_000,
      settleMs: undefined,
      idleMs: 5_000,
    });
  });

  test.each<[Partial<RestoreDetector['spec']>, string]>([
    [{ activeValues: [] }, 'spec.activeValues: '],
    [{ namespaces: ['*'] }, 'spec.namespaces: '],
    [{ principals: [{ group: 'system:authenticated' }] }, 'spec.principals[0]: '],
    [{ principals: [{}] }, 'spec.principals[0]: '],
    [{ phasePath: 'status..phase' }, 'spec.phasePath: '],
    [{ window: { maxDuration: '25h' } }, 'spec.window.maxDuration: '],
    [{ window: { settle: '1x' } }, 'spec.window.settle: '],
  ])('with %j is refused', (spec, where) => {
    expect(detectorProblems(detector(spec)).join('\n')).toContain(where);
    expect(isEnabled(detector(spec))).toBe(false);
  });
});
