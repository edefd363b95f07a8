import { hash } from 'node:crypto';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { RestoreDetector } from '../api/restore-detector.ts';
import { restoreWindowSchema, type RestoreWindow } from '../api/restore-window.ts';
import {
  detectedWindow,
  dueWindow,
  isDeferred,
  isWindowOf,
  isReservedName,
  detectorsOf,
  toEvidence,
  windowsOfSources,
} from './detected-window.ts';
import { detectorProblems, isEnabled, readSource } from './detector.ts';
import { veleroDetector as detector, veleroRestore } from '../../test/support/velero-detector.ts';

const restore = (status: object, spec: object = {}, namespace = 'velero') =>
  veleroRestore('u1', status, spec, namespace);
const named = (name: string) => ({ ...detector(), metadata: { ...detector().metadata, name } });
const NOW = new Date('2026-11-21T12:00:00Z');
const RUNNING = restore({ phase: 'InProgress', startTimestamp: '2026-11-21T11:30:00Z' });
/** Began before the detector was created. */
const OLDER = {
  ...restore({ phase: 'InProgress', startTimestamp: '2026-11-21T09:59:00Z' }),
  metadata: { ...RUNNING.metadata, creationTimestamp: '2026-11-21T09:58:00Z' },
};
const OLDER_ENDED = { ...OLDER, status: { phase: 'Completed' } };
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
  const progress = { itemsRestored: 3, totalItems: 3 };
  const mapping = { namespaceMapping: { prod: 'prod-copy', bad: 7 } };
  const running = restore({ ...RUNNING.status, progress }, mapping);
  expect(readSource(detector(), running)).toMatchObject({
    startedAt: new Date('2026-11-21T11:30:00Z'),
    allWritten: true,
    namespaceMapping: { prod: 'prod-copy' },
  });
  const startedAt = new Date('2026-11-21T11:00:00Z');
  const waiting = { startedAt, allWritten: false, namespaceMapping: {} };
  expect(readSource(detector(), restore({}))).toMatchObject(waiting);
});

const windowOf = (object: object, of = detector(), now = NOW, isTaken?: (name: string) => boolean) =>
  detectedWindow(of, readSource(of, object), now, isTaken);

test('every replica builds the same window for a source', () => {
  expect(windowOf(RUNNING)).toEqual(windowOf(RUNNING));
  expect(windowOf(RUNNING)).toMatchObject({
    metadata: {
      name: `velero-${hash('sha256', 'u1').slice(0, 12)}`,
      labels: { 'velero.io/exclude-from-backup': 'true', 'gatehouse.dev/source': 'velero' },
      finalizers: ['gatehouse.dev/sweep'],
    },
    spec: {
      source: {
        type: 'Detector',
        detector: 'velero',
        ref: { kind: 'Restore', name: 'u1', uid: 'u1', createdAt: '2026-11-21T11:00:00Z' },
      },
      match: { operations: ['CREATE', 'UPDATE'] },
      expiresAt: '2026-11-21T17:30:00Z',
    },
  });
});

test('a window pauses what its detector names', () => {
  const quiesce = [{ apiGroup: 'apps', resource: 'deployments', matchLabels: { app: 'operator' } }];
  expect(windowOf(RUNNING, detector({ quiesce })).spec.quiesce).toEqual(quiesce);
  const invalid = quiesce.map((rule) => ({ ...rule, value: null }));
  const problem = 'spec.quiesce[0].value: null is not a value: write another one';
  expect(detectorProblems(detector({ quiesce: invalid }))).toEqual([problem]);
});

describe('a source cannot prevent its window: the window is valid', () => {
  test('for a source with many namespace mappings', () => {
    const namespaceMapping = Object.fromEntries(Array.from({ length: 300 }, (_, i) => [`n${i}`, `m${i}`]));
    const window = windowOf(restore({ phase: 'InProgress' }, { namespaceMapping }));
    expect(Object.keys(window.spec.namespaceMapping ?? {})).toHaveLength(256);
    const limit = 'properties.spec.properties.namespaceMapping.maxProperties';
    expect(restoreWindowSchema).toHaveProperty(limit, 256);
  });

  test('for a source that claims to start in the year 9999: it ends as if it had started now', () => {
    const future = restore({ phase: 'InProgress', startTimestamp: '9999-12-31T23:59:59Z' });
    expect(windowOf(future).spec.expiresAt).toBe('2026-11-21T18:00:00Z');
  });

  test('for a detector with the longest name', () => {
    const long = `${'d'.repeat(62)}.${'d'.repeat(177)}-x${'d'.repeat(11)}`;
    const { name = '', labels = {} } = windowOf(RUNNING, named(long)).metadata;
    expect(name).toMatch(/^[a-z0-9]([-.a-z0-9]{0,251}[a-z0-9])$/);
    expect(isReservedName(name)).toBe(true);
    expect(labels['gatehouse.dev/source']).toBe('d'.repeat(62));
  });
});

describe('S7: a window belongs to a source', () => {
  const forged: RestoreWindow = {
    metadata: { name: windowOf(RUNNING).metadata.name ?? '' },
    spec: { principals: [{ user: 'eve' }], expiresAt: '2026-11-21T13:00:00Z' },
  };
  const source = readSource(detector(), RUNNING);

  test('by its source, not by its name', () => {
    const own = windowOf(RUNNING);
    const manual = { ...own, spec: { ...own.spec, source: { ...own.spec.source, type: 'Manual' as const } } };
    expect(isWindowOf(own, detector(), source)).toBe(true);
    for (const other of [forged, manual]) expect(isWindowOf(other, detector(), source)).toBe(false);
    expect(isWindowOf(own, named('other'), source)).toBe(false);
    expect(isWindowOf(own, detector(), { uid: 'u2' })).toBe(false);
  });

  test('a window of a user with its name neither hides the source nor keeps its name from another window', () => {
    const found = windowsOfSources(detector(), [RUNNING], [forged], velero, place, NOW);
    expect(found).toHaveLength(1);
    expect(found[0]?.metadata.name).toBe(
      windowOf(RUNNING, detector(), NOW, (name) => name === forged.metadata.name).metadata.name,
    );
    expect(found[0]?.metadata.name).not.toBe(forged.metadata.name);
  });
});

describe('evidence', () => {
  const evidence = (object: object, spec: Partial<RestoreDetector['spec']> = {}, at = NOW, who = velero) =>
    windowsOfSources(detector(spec), [object], [], who, place, at).map(toEvidence);

  test('B1: is an active restore, even before its window exists', () => {
    expect(evidence(RUNNING)).toMatchObject([
      { operations: ['CREATE', 'UPDATE'], enforced: [], links: true },
    ]);
  });

  test.each<[string, readonly unknown[]]>([
    ['F7: a restore in an untrusted namespace', evidence(restore({ phase: 'InProgress' }, {}, 'team-a'))],
    ['a restore that is finalizing', evidence(restore({ phase: 'Finalizing' }))],
    ['a restore that is over', evidence(restore({ phase: 'Completed' }))],
    ['F5: a restore that began too long ago', evidence(RUNNING, {}, new Date('2026-11-21T17:30:01Z'))],
    ['a restore by another user', evidence(RUNNING, {}, NOW, { username: 'alice', groups: [] })],
    ['a restore in another namespace', evidence(RUNNING, { scope: { mode: 'SourceNamespace' } })],
    ['a restore that is older than the detector', evidence(OLDER)],
  ])('is not %s', (_which, found) => {
    expect(found).toEqual([]);
  });

  test('ignores a source with a window, and finds other restores', () => {
    const other = { ...RUNNING, metadata: { ...RUNNING.metadata, name: 'other', uid: 'u2' } };
    const closed = { ...windowOf(RUNNING), status: { closedAt: '2026-11-21T11:45:00Z' } };
    const found = (objects: readonly object[]) =>
      windowsOfSources(detector(), objects, [closed], velero, place, NOW).map(
        ({ metadata }) => metadata.name,
      );
    expect(found([RUNNING])).toEqual([]);
    expect(found([RUNNING, other])).toEqual([windowOf(other).metadata.name]);
  });

  test('is a restore whose window a user deletes, under another name', () => {
    const { metadata, spec } = windowOf(RUNNING);
    const deleted = { spec, metadata: { ...metadata, deletionTimestamp: '2026-11-21T11:45:00Z' } };
    const [found] = windowsOfSources(detector(), [RUNNING], [deleted], velero, place, NOW);
    expect(found?.spec).toEqual(spec);
    expect(found?.metadata.name).not.toBe(metadata.name);
  });

  test('is searched for only if the requester may be the backup tool', () => {
    const alice = { username: 'alice', groups: [] };
    const found = (spec: object, who = velero) => detectorsOf([detector(spec)], who).length;
    expect([found({}), found({}, alice), found({ namespaces: [] })]).toEqual([1, 0, 0]);
  });
});

const due = (object: object, now = NOW) => dueWindow(detector(), readSource(detector(), object), now).kind;
const at = (time: string) => new Date(`2026-11-21T${time}Z`);

test.each([
  ['open while the restore is active', RUNNING, NOW, 'open'],
  ['open even for a restore that is older than the detector', OLDER, NOW, 'open'],
  ['closed after the restore', restore({ phase: 'Completed' }), NOW, 'closed'],
  ['closed for an active restore that is over time', RUNNING, at('17:30:01'), 'closed'],
  ['closed for ten minutes after that time', RUNNING, at('17:39:59'), 'closed'],
  ['not later: then a full sweep follows an absence', RUNNING, at('17:40:00'), 'none'],
  ['not before the restore starts', restore({}), NOW, 'none'],
  ['not for a restore that ended before the detector came', OLDER_ENDED, NOW, 'none'],
  ['at the end of the time for a restore in an unknown phase', restore({ phase: 'Dancing' }), NOW, 'later'],
  ['then', restore({ phase: 'Dancing' }), at('17:00:00'), 'closed'],
])('a window is due %s', (_when, object, now, expected) => {
  expect(due(object, now)).toBe(expected);
});

test.each<[Partial<RestoreDetector['spec']>, string]>([
  [{ activeValues: [] }, 'spec.activeValues: '],
  [{ namespaces: ['*'] }, 'spec.namespaces: '],
  [{ principals: [{ group: 'system:authenticated' }] }, 'spec.principals[0]: '],
  [{ principals: [{}] }, 'spec.principals[0]: '],
  [{ phasePath: 'status..phase' }, 'spec.phasePath: '],
  [{ window: { maxDuration: '25h' } }, 'spec.window.maxDuration: '],
  [{ window: { settle: '1x' } }, 'spec.window.settle: '],
])('a detector with %j is refused', (spec, where) => {
  expect(detectorProblems(detector(spec)).join('\n')).toContain(where);
  expect(isEnabled(detector(spec))).toBe(false);
});

test('a window is due for each source whose writes were deferred, regardless of what happens to it later', () => {
  const time = fc
    .integer({ min: -36 * 60, max: 36 * 60 })
    .map((minutes) => new Date(NOW.getTime() + minutes * 60_000));
  fc.assert(
    fc.property(
      fc.record({
        created: time,
        started: fc.option(time),
        asked: time,
        later: fc.integer({ min: 0, max: 12 * 60 }),
      }),
      fc.constantFrom('InProgress', 'Finalizing', 'Completed', 'Dancing'),
      ({ created, started, asked, later }, phase) => {
        const source = (current: string) =>
          readSource(detector(), {
            ...RUNNING,
            metadata: { ...RUNNING.metadata, creationTimestamp: created.toISOString() },
            status: {
              phase: current,
              ...(started === null ? {} : { startTimestamp: started.toISOString() }),
            },
          });
        if (!isDeferred(detector(), source('InProgress'), velero, place, asked)) return;
        const { kind } = dueWindow(detector(), source('InProgress'), asked);
        expect(kind).toBe('open');
        const looked = new Date(asked.getTime() + later * 60_000);
        const end = Math.min((started ?? created).getTime(), looked.getTime()) + 6 * 3_600_000;
        if (looked.getTime() < end + 600_000)
          expect(dueWindow(detector(), source(phase), looked).kind).not.toBe('none');
      },
    ),
  );
});
