import { beforeEach, describe, expect, test } from 'vitest';

import type { RestoreWindow, RestoreWindowSpec, Violation } from '../../api/restore-window.ts';
import type { SweepResult } from '../../restore/report.ts';
import { containing, createCluster, NEVER, silent } from '../../../test/support/runtime/fixtures.ts';
import type { RestoreReport } from '../../api/restore-findings.ts';
import { RESTORE_REPORTS, RESTORE_WINDOWS } from '../resources.ts';
import { SWEEP_FINALIZER } from '../../restore/window.ts';
import type { ClusterSweep } from './sweep.ts';
import { createRestoreWindowsReconciler, type RestoreWindowsOptions } from './restore-windows.ts';

const times = { settleMs: 65_000, recheckMs: 60_000 };
const at = (time: string) => new Date(`2026-11-21T${time}Z`);

const violation: Violation = {
  policy: 'servers',
  reference: 'datacenter',
  object: { apiVersion: 'infra.example.com/v1', kind: 'Server', namespace: 'shop', name: 's1' },
  field: 'spec.datacenter',
  reason: 'TargetMissing',
  target: { group: 'infra.example.com', resource: 'datacenters', name: 'fra1' },
};

const { client, objects, events, reset } = createCluster();
const windows = objects<RestoreWindow>(RESTORE_WINDOWS);
let now: Date;
/** The result of each following sweep. */
let found: Pick<SweepResult, 'violations' | 'unreadable'>;
let sweeps: boolean[];
let changes: Map<string, object>;
let reconcile: ReturnType<typeof leader>;

beforeEach(() => {
  reset();
  now = at('12:00:00');
  found = { violations: [], unreadable: [] };
  sweeps = [];
  changes = new Map();
  reconcile = leader();
});

function leader(change: Partial<RestoreWindowsOptions> = {}) {
  const run = createRestoreWindowsReconciler({
    client,
    windows: { get: windows.read, list: windows.list },
    changes,
    sweep: ({ interim }) => {
      sweeps.push(interim);
      return Promise.resolve(clusterSweep(interim));
    },
    violationsOf: (_window, all) => all.map(({ violation: one }) => one),
    stored: { count: () => Promise.resolve(3) },
    record: events.record,
    timesOf: () => times,
    source: () => undefined,
    now: () => now,
    log: silent,
    ...change,
  });
  return () => run('drill', NEVER);
}

const clusterSweep = (interim: boolean): ClusterSweep => ({
  interim,
  startedAt: now,
  finishedAt: now,
  objectsScanned: 3,
  unreadable: [...found.unreadable],
  violations: found.violations.map((one) => ({
    violation: one,
    resource: { group: 'infra.example.com', resource: 'servers' },
    written: { changedAt: [], labelledAt: [] },
    isAudited: true,
  })),
});

function create(spec: Partial<RestoreWindowSpec> = {}): void {
  windows.add({
    apiVersion: 'gatehouse.dev/v1alpha1',
    kind: 'RestoreWindow',
    metadata: { name: 'drill', uid: 'uid-of-drill', generation: 1, finalizers: [SWEEP_FINALIZER] },
    spec: { principals: [{ user: 'velero' }], expiresAt: '2026-11-21T13:00:00Z', ...spec },
  });
}

const patch = (change: object) => windows.patch('drill', change);
const edit = (spec: Partial<RestoreWindowSpec>) => patch({ spec });
const status = () => windows.read('drill')?.status;
const condition = (type: string) => status()?.conditions?.find((candidate) => candidate.type === type);
const requeue = (time: string) => ({ kind: 'requeue', at: at(time) });
const NOON = '2026-11-21T12:00:00.000Z';

/** Reconciles at each of these times, and returns the last result. */
async function runAt(...times: readonly [string, ...string[]]) {
  for (const time of times.slice(0, -1)) {
    now = at(time);
    await reconcile();
  }
  now = at(times.at(-1) ?? '');
  return await reconcile();
}

/** A window that was opened at noon. */
async function openAtNoon(spec?: Partial<RestoreWindowSpec>): Promise<void> {
  create(spec);
  await reconcile();
}

/** A window that was opened and closed at noon, and swept for the first time. */
async function closeAtNoon(): Promise<void> {
  await openAtNoon();
  edit({ close: true });
  await runAt('12:00:00', '12:00:00');
}

test('an open window is written and announced once, and requeued for its end', async () => {
  create();
  expect(await reconcile()).toEqual(requeue('13:00:00'));
  expect(status()).toMatchObject({ phase: 'Open', openedAt: NOON });
  expect(condition('Open')).toMatchObject({ status: 'True', observedGeneration: 1 });
  await runAt('12:30:00');
  expect(windows.writes()).toBe(1);
  edit({ expiresAt: '2026-11-21T14:00:00Z' });
  expect(await reconcile()).toEqual(requeue('14:00:00'));
  expect(status()?.openedAt).toBe(NOON);
  const regarding = { kind: 'RestoreWindow', name: 'drill', uid: 'uid-of-drill' };
  expect(events.all).toMatchObject([{ reason: 'WindowOpened', regarding }]);
});

test('after a window has closed, it gets its final sweep once it has settled, and completes with a clean result', async () => {
  found = { violations: [violation], unreadable: [] };
  await closeAtNoon();
  expect(sweeps).toEqual([true]);
  const lastSweep = { interim: true, objectsScanned: 3 };
  expect(status()).toMatchObject({ phase: 'Settling', lastSweep, violations: { items: [violation] } });
  edit({ close: false, expiresAt: '2026-11-22T00:00:00Z' }); // closed
  expect(await runAt('12:00:30')).toEqual(requeue('12:01:05'));
  found = { violations: [], unreadable: [] };
  await runAt('12:01:05');
  expect(sweeps).toEqual([true, false]);
  expect(status()).toMatchObject({ phase: 'Completed', closedAt: NOON });
  expect(condition('IntegrityVerified')).toMatchObject({ status: 'True', reason: 'Clean' });
  expect(condition('SweepComplete')).toMatchObject({ status: 'True', reason: 'Swept' });
  expect(events.reasons()).toEqual(['WindowOpened', 'WindowClosed', 'ViolationsFound', 'Clean']);
  await reconcile(); // removes the finalizer

  const before = windows.writes();
  changes.set('drill', {});
  expect(await runAt('18:00:00')).toEqual({ kind: 'await-change' });
  expect(windows.writes()).toBe(before);
  expect(sweeps).toHaveLength(2);
});

test('a remaining violation is swept immediately when a target appears, even after a failed write of the report, and ends clean', async () => {
  found = { violations: [violation], unreadable: [] };
  await closeAtNoon();
  await runAt('12:01:05', '12:01:05'); // the second run removes the finalizer
  found = { violations: [], unreadable: [] };
  changes.set('drill', {});
  windows.interrupt('before');
  await expect(runAt('12:01:10')).rejects.toThrow('connection broke');
  await reconcile();
  expect(status()).toMatchObject({ phase: 'Completed', violations: { total: 0, items: [] } });
  const lastTransitionTime = '2026-11-21T12:01:10Z';
  expect(condition('IntegrityVerified')).toMatchObject({ status: 'True', lastTransitionTime });
  expect(events.reasons().at(-1)).toBe('Clean');
});

test('a kind that cannot be read never leads to a clean report, until it can be read', async () => {
  const problem = 'servers.infra.example.com: 403';
  found = { violations: [], unreadable: [problem] };
  await closeAtNoon();
  await runAt('12:01:05');
  expect(status()?.phase).toBe('CompletedWithViolations');
  expect(condition('SweepComplete')).toMatchObject({ status: 'False', reason: 'KindUnreadable' });
  expect(condition('IntegrityVerified')).toMatchObject({ status: 'Unknown', reason: 'KindUnreadable' });
  expect(condition('Ready')).toMatchObject({ status: 'False', reason: 'KindUnreadable' });
  expect(status()?.violations).toEqual({ byPolicy: {}, items: [] });
  const message = containing(problem);
  expect(events.all.at(-1)).toMatchObject({ type: 'Warning', reason: 'KindUnreadable', message });
  found = { violations: [], unreadable: [] };
  await runAt('12:02:05');
  expect(status()?.phase).toBe('Completed');
});

test('many kinds that cannot be read fit into the conditions', async () => {
  found = { violations: [], unreadable: Array.from({ length: 200 }, (_, n) => `${n}: ${'x'.repeat(200)}`) };
  await closeAtNoon();
  for (const { message } of status()?.conditions ?? []) expect(message.length).toBeLessThanOrEqual(32_768);
});

describe('a report', () => {
  const reports = objects<RestoreReport>(RESTORE_REPORTS);
  const numbered = (count: number): void => {
    const fields = Array.from({ length: count }, (_, index) => `spec.disks[${index}]`);
    found = { violations: fields.map((field) => ({ ...violation, field })), unreadable: [] };
  };
  const counts = () => reports.list().map(({ spec }) => spec.violations?.length);

  beforeEach(() => numbered(51));

  test('is written once, replaced when its content changes, and deleted when it is not needed any more', async () => {
    await closeAtNoon();
    await runAt('12:01:05');
    const before = reports.writes();
    for (const [count, time, expected, writes] of [
      [51, '12:01:05', [51], 0], // the result of the sweep before
      [52, '12:02:00', [52], 1],
      [0, '12:03:00', [], 1],
    ] as const) {
      numbered(count);
      changes.set('drill', {});
      await runAt(time, time); // the first one may remove the finalizer
      expect(counts()).toEqual(expected);
      expect(reports.writes() - before).toBe(writes);
    }
  });

  const addOfUser = () => {
    reports.add({
      metadata: { name: 'drill-0', uid: 'of-a-user' },
      spec: { window: 'other', part: 0, parts: 1, violations: [], relink: [] },
    });
  };

  test('S7: replaces an object of a user that has its name', async () => {
    addOfUser();
    await closeAtNoon();
    expect(reports.list()).toMatchObject([{ spec: { window: 'drill', parts: 1 } }]);
    expect(counts()).toEqual([51]);
  });

  test('S7: stays if another leader has just written the same report', async () => {
    await closeAtNoon();
    const [written] = reports.list();
    const listAll: typeof client.listAll = async (kind, options) =>
      options?.labelSelector === undefined
        ? await client.listAll(kind, options)
        : { metadata: {}, items: [] };
    reconcile = leader({ client: { ...client, listAll } });
    changes.set('drill', {});
    await reconcile();
    expect(reports.list()).toEqual([written]);
  });

  test('S7: is not deleted if another leader has replaced it since it was read', async () => {
    addOfUser();
    const remove: typeof client.delete = async (kind, ref, options) => {
      if (kind.resource === RESTORE_REPORTS.resource)
        reports.patch('drill-0', { metadata: { uid: 'of-the-other-leader' } });
      return await client.delete(kind, ref, options);
    };
    reconcile = leader({ client: { ...client, delete: remove } });
    await expect(closeAtNoon()).rejects.toThrow('the preconditions do not hold');
    expect(reports.list()).toMatchObject([{ metadata: { uid: 'of-the-other-leader' } }]);
  });
});

describe('a failure is retried:', () => {
  test('a write that meets a conflict announces nothing', async () => {
    create();
    const stale = windows.read('drill');
    edit({ reason: 'drill' });
    const overtaken = leader({ windows: { get: () => stale, list: () => [] } });
    await expect(overtaken()).rejects.toMatchObject({ code: 409 });
    expect(events.reasons()).toEqual([]);
    await reconcile();
    expect(status()?.phase).toBe('Open');
  });

  test.each([
    ['before', 'opening', 0],
    ['after', 'opening', 0],
    ['before', 'closing', 1],
    ['after', 'closing', 1],
    ['before', 'the report', 2],
    ['after', 'the report', 2],
  ] as const)('killed %s the write of %s, it converges', async (when, _write, done) => {
    create();
    for (let write = 0; write < done; write++) {
      await reconcile();
      edit({ close: true });
    }
    windows.interrupt(when);
    await expect(reconcile()).rejects.toThrow('connection broke');
    reconcile = leader();
    await reconcile();
    edit({ close: true });
    await runAt('12:00:00', '12:00:00', '12:01:05');
    const times = { openedAt: NOON, closedAt: NOON };
    expect(status()).toMatchObject({ phase: 'Completed', ...times, closeReason: 'Manual' });
    expect(sweeps.filter((interim) => !interim)).toHaveLength(1);
    expect(new Set(events.reasons()).size).toBe(events.reasons().length);
  });
});

test('a restore that ended before Gatehouse saw it is reported as unchecked at admission', async () => {
  await openAtNoon({ source: { type: 'Detector', detector: 'velero' }, close: true });
  expect(condition('CheckedAtAdmission')).toMatchObject({ status: 'False', reason: 'Unobserved' });
});

describe('windows that share a sweep', () => {
  const other = (name: string, status: NonNullable<RestoreWindow['status']>) => {
    const spec = { principals: [{ user: 'velero' }], expiresAt: '2026-11-21T13:00:00Z' };
    windows.add({ metadata: { name }, spec, status });
  };

  test('F16: sweep from the beginning of the first one whose report is not final', async () => {
    const since: Date[] = [];
    reconcile = leader({
      sweep: (options) => {
        since.push(options.since);
        return Promise.resolve(clusterSweep(options.interim));
      },
    });
    other('january', { phase: 'Completed', openedAt: '2026-01-01T00:00:00Z' });
    other('refused', { phase: 'Refused', openedAt: '2026-01-01T00:00:00Z' });
    await closeAtNoon();
    other('running', { phase: 'Settling', openedAt: '2026-11-20T00:00:00Z' });
    await runAt('12:02:00');
    expect(since).toEqual([at('12:00:00'), new Date('2026-11-20T00:00:00Z')]);
  });

  test('report no default that an older object lacks', async () => {
    const reason = 'DefaultWouldChange' as const;
    const created = (name: string, creationTimestamp: string) => ({
      resource: { group: '', resource: 'servers' },
      isAudited: true,
      written: { changedAt: [], labelledAt: [], creationTimestamp },
      violation: { ...violation, object: { ...violation.object, name }, reason },
    });
    const violations = [created('old', '2026-11-21T11:00:00Z'), created('restored', '2026-11-21T12:00:00Z')];
    reconcile = leader({ sweep: ({ interim }) => Promise.resolve({ ...clusterSweep(interim), violations }) });
    await closeAtNoon();
    expect(status()?.violations?.items.map(({ object }) => object.name)).toEqual(['restored']);
  });
});

test('the progress of a sweep is not written over a change of the window, and the report fails then', async () => {
  await openAtNoon({ close: true });
  const resource = { group: 'infra.example.com', resource: 'servers' };
  const slow = leader({
    sweep: async ({ interim }, signal, onProgress) => {
      edit({ close: false });
      const startedAt = new Date(now.getTime() - 10_000);
      const progress = { startedAt, phase: 'Reading', objectsScanned: 2, resource } as const;
      await onProgress?.({ ...progress, resources: [resource] }, signal);
      return clusterSweep(interim);
    },
  });
  await expect(slow()).rejects.toMatchObject({ code: 409 });
  expect(status()).not.toHaveProperty('currentSweep');
});

test('links that are counted during a sweep do not make its report fail', async () => {
  await openAtNoon({ close: true });
  const early = { found: 1, linked: 1, skipped: 0, failed: 0, items: [] };
  const slow = leader({
    sweep: ({ interim }) => {
      patch({ status: { relink: early } });
      return Promise.resolve(clusterSweep(interim));
    },
    relink: () => Promise.resolve({ items: [], unreadable: [] }),
  });
  await slow();
  expect(status()).toMatchObject({ phase: 'Settling', lastSweep: { interim: true }, relink: early });
});
