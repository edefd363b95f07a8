import { expect, test } from 'vitest';
import type { RestoreDetector } from '../api/restore-detector.ts';
import type { RestoreWindow, Violation } from '../api/restore-window.ts';
import {
  createAttribution,
  type SweptViolation,
  restoringWindows,
  sweepMode,
  veleroName,
} from './attribution.ts';
import { hash } from 'node:crypto';
import { openedForCluster } from './window.ts';

const LABEL = 'velero.io/restore-name';
const detectors = [
  { metadata: { name: 'velero' }, spec: { attributionLabel: { key: LABEL, value: 'VeleroName' } } },
  { metadata: { name: 'k10' }, spec: {} },
] as unknown as readonly RestoreDetector[]; // the only fields that the function reads
const at = (time: string) => `2026-11-21T${time}Z`;

function windowOf(
  name: string,
  from: string,
  to: string,
  change: Partial<RestoreWindow> = {},
): RestoreWindow {
  return {
    metadata: { name, creationTimestamp: at(from) },
    spec: { principals: [], expiresAt: at('23:00:00'), ...change.spec },
    status: { openedAt: at(from), closedAt: at(to), phase: 'CompletedWithViolations', ...change.status },
  };
}

const refOf = (name: string) => ({
  apiVersion: 'velero.io/v1',
  kind: 'Restore',
  resource: 'restores',
  name,
  uid: name,
});

/** The window of a Velero Restore. */
function veleroWindow(restore: string, from: string, to: string, metadata: object = {}): RestoreWindow {
  const source = { type: 'Detector', detector: 'velero', ref: refOf(restore) } as const;
  const spec = { principals: [], expiresAt: at('23:00:00'), source };
  const window = windowOf(restore, from, to, { spec, status: { phase: 'Settling' } });
  return { ...window, metadata: { ...window.metadata, ...metadata } };
}
const completed = (window: RestoreWindow): RestoreWindow => ({
  ...window,
  status: { ...window.status, phase: 'Completed' },
});

interface Change {
  readonly label?: string;
  readonly changedAt?: readonly string[];
  readonly labelledAt?: readonly string[];
  readonly namespace?: string;
  readonly resource?: string;
  readonly isAudited?: boolean;
  readonly reason?: Violation['reason'];
}

function found(created: string, change: Change = {}): SweptViolation {
  const {
    label,
    changedAt = [],
    labelledAt = [],
    namespace = 'shop',
    resource = 'servers',
    isAudited = true,
  } = change;
  const object = { apiVersion: 'v1', kind: 'Server', namespace, name: 's1' };
  return {
    violation: { policy: 'servers', object, field: 'spec.zone', reason: change.reason ?? 'TargetMissing' },
    resource: { group: resource === 'namespaces' ? '' : 'infra.example.com', resource },
    written: {
      creationTimestamp: at(created),
      ...(label === undefined ? {} : { labels: { [LABEL]: label } }),
      namespace,
      changedAt,
      labelledAt,
    },
    isAudited,
  };
}

/** The name of the reporting window, which must not depend on the order of the windows. */
function reporter(windows: readonly RestoreWindow[], violation: SweptViolation): string | undefined {
  const names = [windows, windows.toReversed()].map(
    (order) => createAttribution(order, detectors, 65_000).reporter(violation)?.metadata.name,
  );
  expect(names[0]).toBe(names[1]);
  return names[0];
}

const three = [
  veleroWindow('r1', '10:00:00', '10:30:00'),
  veleroWindow('r2', '10:31:00', '11:00:00'),
  veleroWindow('r3', '11:00:30', '11:30:00'),
];

test.each([
  ['r1', '10:10:00'],
  ['r2', '10:40:00'],
  ['r3', '11:10:00'],
  ['r2', '11:00:40'], // while r3 was open
  ['r3', '09:00:00'], // the restore has updated it
])('of three restores into one namespace, only %s reports its object of %s', (label, created) => {
  expect(reporter(three, found(created, { label }))).toBe(label);
});

test.each([
  ['without a label, created after the restores', '12:00:00', undefined],
  ['with the label of a restore without a window', '10:10:00', 'r0'],
  ['older than every restore', '09:00:00', undefined],
  ['that is a copy of a restored object, made after the restore', '12:00:00', 'r2'],
])('an object %s is left to the audit', (_which, created, label) => {
  expect(reporter(three, found(created, label === undefined ? {} : { label }))).toBeUndefined();
});

test('two restores with one name in succession: the first write of the object decides', () => {
  const first = veleroWindow('r1', '10:00:00', '10:30:00', { name: 'first' });
  const second = veleroWindow('r1', '12:00:00', '12:30:00', { name: 'second' });
  expect(reporter([first, second], found('10:10:00', { label: 'r1' }))).toBe('first');
  expect(reporter([first, second], found('12:10:00', { label: 'r1' }))).toBe('second');
  expect(reporter([first, second], found('09:00:00', { label: 'r1' }))).toBe('second');
});

test('a window in deletion leaves the report to the next window of the same restore', () => {
  const deleted = { name: 'a', deletionTimestamp: at('10:00:00') };
  const gone = veleroWindow('r1', '10:00:00', '10:30:00', deleted);
  const other = veleroWindow('r1', '10:00:00', '10:30:00', { name: 'b' });
  expect(reporter([gone, other], found('10:10:00', { label: 'r1' }))).toBe('b');
  expect(reporter([gone], found('10:10:00', { label: 'r1' }))).toBe('a');
  // The next window opens a moment after the write that it is to report.
  const next = veleroWindow('r1', '10:10:01', '10:30:00', { name: 'b' });
  expect(reporter([gone, next], found('10:10:00', { label: 'r1' }))).toBe('b');
});

test('Velero labels no Namespace: its first write decides, and only the newest open window reports it', () => {
  expect(reporter(three, found('10:10:00', { resource: 'namespaces' }))).toBe('r1');
  expect(reporter(three, found('11:00:40', { resource: 'namespaces' }))).toBe('r3');
  expect(reporter(three, found('09:00:00', { resource: 'namespaces' }))).toBeUndefined();
});

test("a tenant's window does not take violations out of the report of a restore", () => {
  const ofTenant = windowOf('tenant', '10:05:00', '10:30:00');
  const restore = openedForCluster(windowOf('restore', '10:00:00', '10:30:00'));
  expect(reporter([ofTenant, restore], found('10:10:00'))).toBe('restore');
  expect(reporter([ofTenant], found('10:10:00'))).toBe('tenant');
});

test('what a restore wrote before it had a window is in its report, and what is older than the restore is not', () => {
  const late = veleroWindow('r1', '10:05:00', '10:30:00');
  const of = (change: object, created: string) => {
    const ref = { ...late.spec.source?.ref, createdAt: at('10:00:00') };
    const spec = { ...late.spec, source: { ...late.spec.source, ref, ...change } } as RestoreWindow['spec'];
    return reporter([{ ...late, spec }], found(created, { resource: 'namespaces' }));
  };
  expect(of({}, '10:00:00')).toBe('r1');
  expect(of({}, '09:59:59')).toBeUndefined();
  expect(of({ type: 'Manual' }, '10:00:00')).toBeUndefined();
});

test('of an object that is older than its restore, a report lists only what the restore has changed', () => {
  const window = veleroWindow('r1', '10:00:00', '10:30:00');
  const ref = { ...refOf('r1'), createdAt: at('10:00:00') };
  const dated = {
    ...window,
    spec: { ...window.spec, source: { type: 'Detector', detector: 'velero', ref } },
  };
  const of = (change: Change) =>
    reporter([dated as RestoreWindow], found('09:00:00', { label: 'r1', ...change }));
  expect(of({ changedAt: [at('10:10:00')] })).toBe('r1');
  expect(of({ changedAt: [at('09:30:00')], labelledAt: [at('10:10:00')] })).toBeUndefined();
  const drill = windowOf('drill', '10:00:00', '10:30:00');
  expect(reporter([drill], found('09:00:00', { labelledAt: [at('10:10:00')] }))).toBe('drill');
});

test('the writer of an object is one window, and none once its report is completed', () => {
  const writer = (windows: readonly RestoreWindow[], label: string) =>
    createAttribution(windows, detectors, 65_000).writer(found('11:00:40', { label }))?.metadata.name;
  expect(['r2', 'r3'].map((label) => writer(three, label))).toEqual(['r2', 'r3']);
  expect(writer([completed(veleroWindow('r2', '10:31:00', '11:00:00'))], 'r2')).toBeUndefined();
});

test('a window without a label reports what was created or changed while it was open, where it covers', () => {
  const drill = windowOf('drill', '10:00:00', '10:30:00', {
    spec: { principals: [], expiresAt: at('12:00:00'), match: { namespaces: { include: ['shop'] } } },
  });
  expect(reporter([drill], found('10:10:00'))).toBe('drill');
  expect(reporter([drill], found('09:00:00', { changedAt: [at('10:31:05')] }))).toBe('drill');
  expect(reporter([drill], found('09:00:00', { changedAt: [at('10:31:06')] }))).toBeUndefined();
  expect(reporter([drill], found('10:10:00', { namespace: 'lab' }))).toBeUndefined();
  // a tool without a detector may label too
  expect(reporter([drill], found('10:10:00', { label: 'r0' }))).toBe('drill');
  // but a known label is better evidence
  const restore = veleroWindow('r1', '10:05:00', '10:30:00');
  expect(reporter([drill, restore], found('10:10:00', { label: 'r1' }))).toBe('r1');
  expect(reporter([drill, restore], found('10:10:00'))).toBe('drill');
});

test('of windows that are open at the same time, each reports its own objects', () => {
  const open = (window: RestoreWindow): RestoreWindow => ({
    ...window,
    status: { openedAt: window.metadata.creationTimestamp ?? '', phase: 'Open' },
  });
  const scoped = (name: string, namespace: string) => {
    const match = { namespaces: { include: [namespace] } };
    const spec = { principals: [{ user: name }], expiresAt: at('23:00:00'), match };
    return windowOf(name, '10:02:00', '23:00:00', { spec });
  };
  const windows = [
    veleroWindow('r1', '10:00:00', '23:00:00'),
    veleroWindow('r2', '10:01:00', '23:00:00'),
    scoped('alice', 'shop'),
    scoped('bob', 'lab'),
  ].map(open);
  expect(
    ['r1', 'r2'].map((label) => reporter(windows, found('10:10:00', { label, namespace: 'shop' }))),
  ).toEqual(['r1', 'r2']);
  expect(
    ['shop', 'lab', 'other'].map((namespace) => reporter(windows, found('10:10:00', { namespace }))),
  ).toEqual(['alice', 'bob', 'r2']);
});

test('a tool without a label in its detector is treated in the same way', () => {
  const source = { type: 'Detector', detector: 'k10', ref: refOf('r') } as const;
  const spec = { principals: [], expiresAt: at('23:00:00'), source };
  const k10 = windowOf('k', '10:00:00', '10:30:00', { spec });
  expect(reporter([k10], found('10:10:00'))).toBe('k');
});

test('after a rollback or a long absence, the full sweep reports what no restore wrote', () => {
  const full = windowOf('startup-1', '12:00:00', '12:00:00', {
    spec: { principals: [], expiresAt: at('13:00:00'), source: { type: 'Startup' } },
  });
  expect(reporter([...three, full], found('09:00:00'))).toBe('startup-1');
  expect(reporter([...three, full], found('10:10:00', { label: 'r1' }))).toBe('r1');
});

test('a finding that no audit makes remains in the report of the newest restore that could have written it', () => {
  const unaudited = found('09:00:00', { isAudited: false });
  expect(reporter(three, unaudited)).toBe('r3');
  const elsewhere = windowOf('drill', '12:00:00', '12:30:00', {
    spec: { principals: [], expiresAt: at('13:00:00'), match: { namespaces: { include: ['lab'] } } },
  });
  expect(reporter([...three, elsewhere], unaudited)).toBe('r3');
  const last = completed(veleroWindow('r3', '11:00:30', '11:30:00'));
  expect(reporter([...three.slice(0, 2), last], unaudited)).toBe('r2');
});

test('the namespace mapping of a restore says nothing about the objects of others', () => {
  const crossing = { reason: 'CrossesNamespaceMapping', isAudited: false } as const;
  expect(reporter(three, found('09:00:00', crossing))).toBeUndefined();
  expect(reporter(three, found('10:10:00', { ...crossing, label: 'r1' }))).toBe('r1');
});

const restoredBy =
  (...given: Parameters<typeof restoringWindows>) =>
  (...made: Parameters<ReturnType<typeof restoringWindows>>) =>
    restoringWindows(...given)(...made).length > 0;
const window = (
  status: RestoreWindow['status'] = {},
  spec: Partial<RestoreWindow['spec']> = {},
): RestoreWindow => ({
  metadata: { name: 'w', creationTimestamp: '2026-11-21T12:00:10Z' },
  spec: { principals: [], expiresAt: '2026-11-21T18:00:00Z', ...spec },
  status,
});
const created = (time: string) => ({ creationTimestamp: at(time) });

test.each([
  ['before the window', '12:00:09', false],
  ['within its first second', '12:00:10', true],
  ['while it is open', '13:00:00', true],
  ['while its last writes arrive', '14:01:05', true],
  ['after its last writes', '14:01:06', false],
])('an object created %s (%s) counts as restored: %s', (_when, time, expected) => {
  const windows = [window({ openedAt: '2026-11-21T12:00:10.700Z', closedAt: '2026-11-21T14:00:00Z' })];
  expect(restoredBy(windows, [], 65_000)(created(time))).toBe(expected);
});

test('an open window has not ended, and without a window no object counts as restored', () => {
  expect(restoredBy([window()], [], 0)(created('23:59:59'))).toBe(true);
  expect(restoredBy([], [], 0)(created('23:59:59'))).toBe(false);
  expect(restoredBy([window()], [], 0)({})).toBe(false);
});

test('A10: an object with the label of the restore, shortened as by Velero, counts as restored', () => {
  const name = 'r'.repeat(80);
  const source = { type: 'Detector', detector: 'velero', ref: refOf(name) } as const;
  const isRestored = restoredBy([window({}, { source })], detectors, 0);
  const labelled = (value: string) => ({ ...created('01:00:00'), labels: { [LABEL]: value } });
  expect(isRestored(labelled(`${'r'.repeat(57)}${hash('sha256', name).slice(0, 6)}`))).toBe(true);
  expect(isRestored(labelled(name))).toBe(false);
  expect(veleroName('short')).toBe('short');
});

const SERVERS = { group: 'infra.example.com', resource: 'servers' };
const named = (
  name: string,
  spec: Partial<RestoreWindow['spec']> = {},
  status: RestoreWindow['status'] = {},
): RestoreWindow => ({ ...window(status, spec), metadata: { ...window().metadata, name } });

test('an object belongs to each window that was open at its creation and covers its place', () => {
  const earlier = named('earlier', {}, { closedAt: '2026-11-21T12:30:00Z' });
  const shop = named('shop', { match: { namespaces: { include: ['shop'] } } });
  const disks = named('disks', { match: { resources: [{ apiGroup: '*', resource: 'disks' }] } });
  const of = (namespace?: string) =>
    restoringWindows([earlier, shop, disks], [], 0)({ ...created('13:00:00'), namespace }, SERVERS);
  expect(of('shop')).toEqual([shop]);
  expect(of('store')).toEqual([]);
  expect(of()).toEqual([]);
});

test('objects do not belong to a Manual window by a label, because only a detector knows the label', () => {
  const forged = window({}, { source: { type: 'Manual', detector: 'velero', ref: refOf('r') } });
  const made = { ...created('01:00:00'), labels: { [LABEL]: 'r' } };
  expect(restoringWindows([forged], detectors, 0)(made)).toEqual([]);
});

test.each([
  ['one window links', ['Link'], 'Link'],
  ['another window waits for an approval', ['Link', 'Report'], 'Report'],
  ['another window turns links off', ['Link', 'Report', 'Off'], 'Off'],
] as const)('the strictest mode of the windows of an object holds: %s', (_when, modes, expected) => {
  const windows = modes.map((relinkOwners, index) => named(`w${index}`, { sweep: { relinkOwners } }));
  const heldBy = windows.length === 1 ? {} : { heldBy: `w${windows.length - 1}` };
  for (const order of [windows, windows.toReversed()])
    expect(sweepMode(named('w0'), order)).toEqual({ mode: expected, mayBlock: true, ...heldBy });
});

test('a sweep leaves the objects of other windows alone', () => {
  expect(sweepMode(named('later'), [named('careful')])).toEqual({ mode: 'Off' });
  expect(sweepMode(named('later'), [])).toEqual({ mode: 'Off' });
});
