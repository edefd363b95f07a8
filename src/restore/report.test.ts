import { expect, test } from 'vitest';
import type { Violation } from '../api/restore-window.ts';
import type { RelinkItem } from '../api/restore-findings.ts';
import {
  concernsReport,
  relinkCondition,
  toRelinkStatus,
  toReports,
  toSweepStatus,
  withDates,
  type SweepResult,
} from './report.ts';

const clean: SweepResult = {
  startedAt: new Date('2026-11-21T12:00:00.250Z'),
  finishedAt: new Date('2026-11-21T12:00:03Z'),
  interim: false,
  objectsScanned: 7,
  violations: [],
  unreadable: [],
};

const CLOSED = { closedAt: '2026-11-21T12:00:00Z' };

const violation = (name: string, change: Partial<Violation> = {}): Violation => ({
  policy: 'servers',
  reference: 'datacenter',
  object: { apiVersion: 'infra.example.com/v1', kind: 'Server', namespace: 'shop', name },
  field: 'spec.datacenter',
  reason: 'TargetMissing',
  target: { group: 'infra.example.com', resource: 'datacenters', name: 'fra1' },
  ...change,
});

test.each<[string, string, Partial<SweepResult>]>([
  ['Completed', 'there are no violations', {}],
  ['CompletedWithViolations', 'a target is missing', { violations: [violation('s1')] }],
  ['CompletedWithViolations', 'a kind could not be read', { unreadable: ['servers: 403'] }],
  ['Settling', 'writes may still arrive, even without violations', { interim: true }],
  ['Settling', 'writes may still arrive', { interim: true, violations: [violation('s1')] }],
])('the phase after a sweep is %s if %s', (phase, _when, change) => {
  expect(toSweepStatus({ ...clean, ...change }, CLOSED).phase).toBe(phase);
});

test('the phase is CompletedWithViolations until no owner fails to be linked', () => {
  const phaseOf = (...items: readonly RelinkItem[]) =>
    toSweepStatus(clean, { ...CLOSED, relink: toRelinkStatus(undefined, items) }).phase;
  expect(phaseOf(item('a', 'Failed'))).toBe('CompletedWithViolations');
  expect(phaseOf(item('a', 'Linked'), item('b', 'OwnerMissing'))).toBe('Completed');
});

test('the status lists the first fifty violations and counts all', () => {
  const violations = Array.from({ length: 120 }, (_, index) =>
    violation(`s${String(index).padStart(3, '0')}`),
  );
  const { total, items } = toSweepStatus(
    { ...clean, violations: violations.toReversed() },
    CLOSED,
  ).violations;
  expect(total).toBe(120);
  const seen = { firstSeen: '2026-11-21T12:00:03.000Z', lastSeen: '2026-11-21T12:00:03.000Z' };
  expect(items).toEqual(violations.slice(0, 50).map((one) => ({ ...one, ...seen })));
});

test('a violation keeps the time at which it was first found', () => {
  const first = withDates({ ...clean, violations: [violation('s1')] }, []);
  const finishedAt = new Date('2026-11-21T13:00:00Z');
  expect(withDates({ violations: [violation('s1'), violation('s2')], finishedAt }, first)).toMatchObject([
    { firstSeen: '2026-11-21T12:00:03.000Z', lastSeen: '2026-11-21T13:00:00.000Z' },
    { firstSeen: '2026-11-21T13:00:00.000Z', lastSeen: '2026-11-21T13:00:00.000Z' },
  ]);
});

test.each([
  [50, []],
  [51, [51]],
  [1_200, [500, 500, 200]],
])('for %i violations, the RestoreReports contain %j', (count, parts) => {
  const violations = Array.from({ length: count }, (_, index) => violation(`s${index}`));
  const reports = toReports('drill', violations, []);
  expect(reports.map((report) => report.violations?.length)).toEqual(parts);
  expect(reports.flatMap((report) => report.violations)).toEqual(parts.length === 0 ? [] : violations);
  expect(reports.map(({ window, part, parts: all }) => [window, part, all])).toEqual(
    parts.map((_, part) => ['drill', part, parts.length]),
  );
});

test.each([
  ['its target', 1, 'infra.example.com', 'datacenters', 'fra1', true],
  ['a target of another name', 1, 'infra.example.com', 'datacenters', 'fra2', false],
  ['another kind', 1, 'infra.example.com', 'racks', 'fra1', false],
  ['another group', 1, 'example.com', 'datacenters', 'fra1', false],
  ['any target, if there are more violations than in the status', 2, '', 'racks', 'r1', true],
])('a report of a missing target may change with %s', (_what, total, group, resource, key, concerns) => {
  const violations = { total, byPolicy: {}, items: [violation('s1')] };
  expect(concernsReport({ status: { violations } }, { group, resource }, key)).toBe(concerns);
  expect(concernsReport({}, { group, resource }, key)).toBe(false);
});

const item = (name: string, result: RelinkItem['result'], more: Partial<RelinkItem> = {}): RelinkItem => ({
  object: { apiVersion: 'v1', kind: 'Server', name },
  owner: { apiVersion: 'v1', kind: 'Rack', name: 'r1' },
  result,
  ...more,
});

test('counts all lost owners, and lists those that were not linked', () => {
  const items = [item('b', 'OwnerMissing'), item('c', 'Linked'), item('a', 'Failed')];
  const status = toRelinkStatus(undefined, items);
  expect(status).toMatchObject({ found: 3, linked: 1, skipped: 1, failed: 1 });
  expect(status.items?.map(({ object }) => object.name)).toEqual(['a', 'b']);
});

test('links and messages of earlier sweeps are kept', () => {
  const message = 'without blockOwnerDeletion';
  const first = toRelinkStatus(undefined, [item('a', 'Linked', { message }), item('b', 'Linked')]);
  expect(first.items).toHaveLength(1);
  const second = toRelinkStatus(first, [item('c', 'Linked')]);
  expect(second).toMatchObject({ found: 3, linked: 3, skipped: 0, failed: 0, items: first.items });
});

test.each<[items: readonly RelinkItem[], status: string, reason: string]>([
  [[], 'True', 'Linked'],
  [[item('a', 'Linked')], 'True', 'Linked'],
  [[item('a', 'OwnerMissing'), item('b', 'Linked')], 'False', 'NotAllLinked'],
  [[item('a', 'WouldLink')], 'False', 'NotAllLinked'],
  [[item('a', 'Failed'), item('b', 'OwnerMissing')], 'False', 'LinkFailed'],
])('the condition shows whether all owners are linked (%#)', (items, status, reason) => {
  const expected = { type: 'OwnersRelinked', status, reason };
  expect(relinkCondition(toRelinkStatus(undefined, items))).toMatchObject(expected);
});
