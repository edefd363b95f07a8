import { beforeEach, describe, expect, test } from 'vitest';

import type {
  RestoreWindow,
  RestoreWindowSpec,
  RestoreWindowStatus,
  Violation,
} from '../../api/restore-window.ts';
import type { SweepResult } from '../../restore/report.ts';
import {
  createEvents,
  createCluster,
  NEVER,
  silent,
  standing,
  untilDone,
  type Cluster,
  type Objects,
} from '../../../test/support/runtime/fixtures.ts';
import type { RestoreReport } from '../../api/restore-report.ts';
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

let cluster: Cluster;
let windows: Objects<RestoreWindow>;
let events: ReturnType<typeof createEvents>;
let now: Date;
/** The result of each following sweep. */
let found: Pick<SweepResult, 'violations' | 'unreadable'>;
let sweeps: boolean[];
let changed: Set<string>;
let reconcile: ReturnType<typeof leader>;

beforeEach(() => {
  cluster = createCluster();
  windows = cluster.objects(RESTORE_WINDOWS);
  events = createEvents();
  now = at('12:00:00');
  found = { violations: [], unreadable: [] };
  sweeps = [];
  changed = new Set();
  reconcile = leader();
});

function leader(change: Partial<RestoreWindowsOptions> = {}) {
  const run = createRestoreWindowsReconciler({
    client: cluster.client,
    windows: { get: windows.read, list: windows.list },
    takeChanged: (name) => changed.delete(name),
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
  ...{ interim, startedAt: now, finishedAt: now, objectsScanned: 3, unreadable: found.unreadable },
  violations: found.violations.map((one) => ({
    violation: one,
    resource: { group: 'infra.example.com', resource: 'servers' },
    written: { changedAt: [] },
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

const edit = (spec: Partial<RestoreWindowSpec>): void => {
  windows.edit('drill', (window) => ({ ...window, spec: { ...window.spec, ...spec } }));
};
const status = () => windows.read('drill')?.status;
const condition = (type: string) => status()?.conditions?.find((candidate) => candidate.type === type);

/** A window that was opened and closed at noon, and swept for the first time. */
async function closeAtNoon(): Promise<void> {
  create();
  await reconcile();
  edit({ close: true });
  await reconcile();
  await reconcile();
}

describe('an open window', () => {
  test('is announced, and requeued for its end', async () => {
    create();
    expect(await reconcile()).toEqual({ kind: 'requeue', at: at('13:00:00') });
    expect(status()).toMatchObject({ phase: 'Open', openedAt: '2026-11-21T12:00:00.000Z' });
    expect(condition('Open')).toMatchObject({ status: 'True', observedGeneration: 1 });
    expect(events.all).toMatchObject([
      { reason: 'WindowOpened', regarding: { kind: 'RestoreWindow', name: 'drill', uid: 'uid-of-drill' } },
    ]);
  });

  test('is written and announced once', async () => {
    create();
    await reconcile();
    now = at('12:30:00');
    await reconcile();
    expect(windows.writes()).toBe(1);
    expect(events.reasons()).toEqual(['WindowOpened']);
  });

  test('with a new expiry keeps its opening time', async () => {
    create();
    await reconcile();
    now = at('12:30:00');
    edit({ expiresAt: '2026-11-21T14:00:00Z' });
    expect(await reconcile()).toEqual({ kind: 'requeue', at: at('14:00:00') });
    expect(status()?.openedAt).toBe('2026-11-21T12:00:00.000Z');
    expect(condition('Open')?.message).toContain('14:00');
    expect(events.reasons()).toEqual(['WindowOpened']);
  });
});

test('the conditions Ready, Reconciling and Stalled follow the life of a window', async () => {
  const seen: string[] = [];
  const run = async () => {
    await reconcile();
    seen.push(
      `${status()?.phase ?? ''} ${standing(windows.read('drill'))} ${condition('Ready')?.reason ?? ''}`,
    );
  };
  create();
  await run();
  edit({ close: true });
  await run();
  found = { violations: [violation], unreadable: [] };
  now = at('12:02:00');
  await run();
  found = { violations: [], unreadable: [] };
  await reconcile(); // removes the finalizer
  now = at('12:02:05');
  changed.add('drill');
  await run();
  expect(seen).toEqual([
    'Open Ready Open',
    'Settling Reconciling Settling',
    'CompletedWithViolations Stalled ViolationsFound',
    'Completed Ready Completed',
  ]);
});

describe('a window that may not open', () => {
  beforeEach(() => {
    create({ principals: [{ group: 'system:authenticated' }] });
  });

  test('reports the reason once', async () => {
    expect(await reconcile()).toEqual({ kind: 'await-change' });
    const isReleased = () => windows.read('drill')?.metadata.finalizers?.length === 0;
    expect(isReleased()).toBe(false);
    await reconcile();
    expect(isReleased()).toBe(true);
    await reconcile();
    expect(condition('Open')).toMatchObject({ status: 'False', reason: 'InvalidSpec' });
    expect(windows.writes()).toBe(2);
    expect(sweeps).toEqual([]);
  });

  test('opens once it is corrected', async () => {
    await reconcile();
    edit({ principals: [{ user: 'velero' }] });
    await reconcile();
    expect(status()?.phase).toBe('Open');
  });
});

test('nothing is written for a deleted window', async () => {
  expect(await reconcile()).toEqual({ kind: 'gone' });
  expect(windows.writes()).toBe(0);
});

describe('a window closes', () => {
  test.each<[string, string, () => void]>([
    [
      'by hand',
      'Manual',
      () => {
        edit({ close: true });
      },
    ],
    [
      'when it expires',
      'Expired',
      () => {
        now = at('13:00:00');
      },
    ],
    [
      'when an edit makes it invalid',
      'Manual',
      () => {
        edit({ principals: [{ group: 'system:authenticated' }] });
      },
    ],
  ])('%s, and announces it once', async (_how, reason, close) => {
    create();
    await reconcile();
    close();
    expect(await reconcile()).toEqual({ kind: 'await-change' });
    expect(status()).toMatchObject({
      phase: 'Settling',
      openedAt: '2026-11-21T12:00:00.000Z',
      closedAt: now.toISOString(),
      closeReason: reason,
    });
    expect(condition('Open')).toMatchObject({ status: 'False', reason });
    expect(events.reasons()).toEqual(['WindowOpened', 'WindowClosed']);
  });

  test('permanently, also when its spec is changed back', async () => {
    await closeAtNoon();
    edit({ close: false, expiresAt: '2026-11-22T00:00:00Z' });
    now = at('12:00:30');
    await reconcile();
    expect(status()).toMatchObject({ phase: 'Settling', closedAt: '2026-11-21T12:00:00.000Z' });
  });
});

describe('after a window has closed', () => {
  test('it is swept at once, for a report that is marked as interim', async () => {
    found = { violations: [violation], unreadable: [] };
    await closeAtNoon();
    expect(sweeps).toEqual([true]);
    expect(status()).toMatchObject({
      phase: 'Settling',
      closedAt: '2026-11-21T12:00:00.000Z',
      lastSweep: { interim: true, objectsScanned: 3 },
      violations: { total: 1, items: [violation] },
    });
    expect(condition('SweepComplete')?.reason).toBe('Interim');
    expect(condition('IntegrityVerified')?.status).toBe('False');
  });

  test('it is left alone while it settles', async () => {
    await closeAtNoon();
    const before = windows.writes();
    now = at('12:00:30');
    expect(await reconcile()).toEqual({ kind: 'requeue', at: at('12:01:05') });
    expect(windows.writes()).toBe(before);
    expect(sweeps).toEqual([true]);
  });

  test('it gets its final sweep once it has settled, and completes with a clean result', async () => {
    await closeAtNoon();
    now = at('12:01:05');
    await reconcile();
    expect(sweeps).toEqual([true, false]);
    expect(status()?.phase).toBe('Completed');
    expect(condition('IntegrityVerified')).toMatchObject({ status: 'True', reason: 'Clean' });
    expect(condition('SweepComplete')).toMatchObject({ status: 'True', reason: 'Swept' });
    expect(events.reasons()).toEqual(['WindowOpened', 'WindowClosed', 'Settling', 'Clean']);
    await reconcile(); // removes the finalizer

    const before = windows.writes();
    now = at('18:00:00');
    changed.add('drill');
    expect(await reconcile()).toEqual({ kind: 'await-change' });
    expect(windows.writes()).toBe(before);
    expect(sweeps).toHaveLength(2);
  });

  test('a leader that starts later makes the final sweep at once', async () => {
    create();
    await reconcile();
    edit({ close: true });
    await reconcile();
    now = at('15:00:00');
    await leader()();
    expect(sweeps).toEqual([false]);
    expect(status()?.phase).toBe('Completed');
  });
});

describe('a window that a user deletes', () => {
  const remove = () => {
    windows.edit('drill', (window) => ({
      ...window,
      metadata: { ...window.metadata, deletionTimestamp: '2026-11-21T12:00:00Z' },
    }));
  };
  const finalizers = () => windows.read('drill')?.metadata.finalizers;

  test('stays until its final sweep, whichever leader makes it', async () => {
    create();
    await reconcile();
    remove();
    for (const time of ['12:00:00', '12:00:01', '12:01:05']) {
      now = at(time);
      await leader()();
      expect(finalizers()).toEqual([SWEEP_FINALIZER]);
    }
    expect(sweeps).toEqual([true, false]);
    await Promise.allSettled([leader()(), leader()()]);
    expect(finalizers()).toEqual([]);
  });

  test('stays while the finalizer cannot be removed, and is not swept again for that', async () => {
    await closeAtNoon();
    remove();
    now = at('12:01:05');
    await reconcile();
    windows.interrupt('before');
    await expect(reconcile()).rejects.toThrow('connection broke');
    await reconcile();
    expect(finalizers()).toEqual([]);
    expect(sweeps).toEqual([true, false]);
  });

  test('without the finalizer gets it before it opens', async () => {
    create();
    windows.edit('drill', ({ metadata, ...window }) => ({
      ...window,
      metadata: { ...metadata, finalizers: [] },
    }));
    await reconcile();
    expect(finalizers()).toEqual([SWEEP_FINALIZER]);
    expect(status()).toBeUndefined();
    await reconcile();
    expect(status()?.phase).toBe('Open');
  });
});

describe('a remaining violation', () => {
  beforeEach(async () => {
    found = { violations: [violation], unreadable: [] };
    await closeAtNoon();
    now = at('12:01:05');
    await reconcile();
    await reconcile(); // removes the finalizer
    sweeps = [];
  });

  test('is reported, with one Event', () => {
    expect(status()).toMatchObject({ phase: 'CompletedWithViolations', violations: { total: 1 } });
    expect(events.reasons()).toEqual(['WindowOpened', 'WindowClosed', 'ViolationsFound']);
    expect(events.all.at(-1)?.type).toBe('Warning');
  });

  test('is checked again after a while, without another Event', async () => {
    now = at('12:02:04');
    expect(await reconcile()).toEqual({ kind: 'requeue', at: at('12:02:05') });
    expect(sweeps).toEqual([]);
    now = at('12:02:05');
    await reconcile();
    expect(sweeps).toEqual([false]);
    expect(events.reasons().filter((reason) => reason === 'ViolationsFound')).toHaveLength(1);
  });

  test('is swept at once when a target appears, and ends clean', async () => {
    now = at('12:01:10');
    found = { violations: [], unreadable: [] };
    changed.add('drill');
    await reconcile();
    expect(status()).toMatchObject({ phase: 'Completed', violations: { total: 0, items: [] } });
    expect(condition('IntegrityVerified')).toMatchObject({
      status: 'True',
      lastTransitionTime: '2026-11-21T12:01:10Z',
    });
    expect(events.reasons().at(-1)).toBe('Clean');
  });

  test('is swept once for a change that does not fix it', async () => {
    now = at('12:01:10');
    changed.add('drill');
    await reconcile();
    expect(await reconcile()).toEqual({ kind: 'requeue', at: at('12:02:10') });
    expect(sweeps).toEqual([false]);
  });

  test('is swept again for the same change when the report of it could not be written', async () => {
    now = at('12:01:10');
    found = { violations: [], unreadable: [] };
    changed.add('drill');
    windows.interrupt('before');
    await expect(reconcile()).rejects.toThrow('connection broke');
    await reconcile();
    expect(status()?.phase).toBe('Completed');
  });

  test('emits another Event when the number of violations changes', async () => {
    now = at('12:02:05');
    found = { violations: [violation, { ...violation, field: 'spec.other' }], unreadable: [] };
    await reconcile();
    expect(events.all.at(-1)?.message).toContain('2 violations');
    expect(condition('IntegrityVerified')?.lastTransitionTime).toBe('2026-11-21T12:00:00Z');
  });
});

describe('a kind that cannot be read', () => {
  beforeEach(async () => {
    found = { violations: [], unreadable: ['servers.infra.example.com: 403'] };
    await closeAtNoon();
    now = at('12:01:05');
    await reconcile();
  });

  test('never leads to a clean report', () => {
    expect(status()?.phase).toBe('CompletedWithViolations');
    expect(condition('SweepComplete')).toMatchObject({ status: 'False', reason: 'KindUnreadable' });
    expect(condition('IntegrityVerified')).toMatchObject({ status: 'Unknown', reason: 'KindUnreadable' });
    expect(events.all.at(-1)).toMatchObject({ type: 'Warning', reason: 'KindUnreadable' });
    expect(events.all.at(-1)?.message).toContain('servers.infra.example.com: 403');
  });

  test('is retried until it can be read', async () => {
    found = { violations: [], unreadable: [] };
    now = at('12:02:05');
    await reconcile();
    expect(status()?.phase).toBe('Completed');
  });
});

describe('S7: an object with the name of a report', () => {
  let reports: Objects<RestoreReport>;

  beforeEach(() => {
    reports = cluster.objects<RestoreReport>(RESTORE_REPORTS);
    const violations = Array.from({ length: 51 }, (_, index) => ({
      ...violation,
      field: `spec.disks[${index}]`,
    }));
    found = { violations, unreadable: [] };
  });

  const addOfUser = () => {
    reports.add({
      metadata: { name: 'drill-0', uid: 'of-a-user' },
      spec: { window: 'other', part: 0, parts: 1, violations: [], relink: [] },
    });
  };

  test('does not keep the window from its own report', async () => {
    addOfUser();
    await closeAtNoon();
    expect(reports.list()).toMatchObject([{ spec: { window: 'drill', parts: 1 } }]);
    expect(reports.list()[0]?.spec.violations).toHaveLength(51);
  });

  test('stays if another leader has just written the same report', async () => {
    await closeAtNoon();
    const [written] = reports.list();
    const listAll: Cluster['client']['listAll'] = async (kind, options) =>
      options?.labelSelector === undefined
        ? await cluster.client.listAll(kind, options)
        : { metadata: {}, items: [] };
    reconcile = leader({ client: { ...cluster.client, listAll } });
    changed.add('drill');
    await reconcile();
    expect(reports.list()).toEqual([written]);
  });

  test('is not deleted if another leader has replaced it since it was read', async () => {
    addOfUser();
    const remove: Cluster['client']['delete'] = async (kind, ref, options) => {
      if (kind.resource === RESTORE_REPORTS.resource)
        reports.edit('drill-0', (report) => ({
          ...report,
          metadata: { ...report.metadata, uid: 'of-the-other-leader' },
        }));
      return await cluster.client.delete(kind, ref, options);
    };
    reconcile = leader({ client: { ...cluster.client, delete: remove } });
    await expect(closeAtNoon()).rejects.toThrow('the preconditions do not hold');
    expect(reports.list()).toMatchObject([{ metadata: { uid: 'of-the-other-leader' } }]);
  });
});

describe('a failure is retried:', () => {
  test('a long sweep writes its progress, and the report removes it', async () => {
    create({ close: true });
    await reconcile();
    let seen: unknown;
    const slow = leader({
      sweep: async ({ interim }, signal, onProgress) => {
        const startedAt = new Date(now.getTime() - 10_000);
        const resource = { group: 'infra.example.com', resource: 'servers' };
        await onProgress?.({ startedAt, objectsScanned: 2, resource, resources: [resource] }, signal);
        seen = status()?.currentSweep;
        return { ...clusterSweep(interim), startedAt };
      },
    });
    await slow();
    expect(seen).toMatchObject({ objectsScanned: 2, objectsTotal: 3, resource: 'servers.infra.example.com' });
    expect(status()?.lastSweep).toMatchObject({ objectsScanned: 3 });
    expect(status()).not.toHaveProperty('currentSweep');
  });

  test('a sweep that fails writes nothing', async () => {
    create();
    await reconcile();
    edit({ close: true });
    await reconcile();
    const before = status();
    const failing = leader({ sweep: () => Promise.reject(new Error('the API server is away')) });
    await expect(failing()).rejects.toThrow('away');
    expect(status()).toEqual(before);
  });

  test('a write that meets a conflict announces nothing', async () => {
    create();
    const stale = windows.read('drill');
    edit({ reason: 'drill' });
    await expect(leader({ windows: { get: () => stale, list: () => [] } })()).rejects.toMatchObject({
      code: 409,
    });
    expect(events.reasons()).toEqual([]);
    await reconcile();
    expect(status()?.phase).toBe('Open');
  });

  const steps: Readonly<Record<string, () => Promise<unknown>>> = {
    opening: () => {
      create();
      return Promise.resolve();
    },
    closing: async () => {
      create();
      await reconcile();
      edit({ close: true });
    },
    'the report': async () => {
      create();
      await reconcile();
      edit({ close: true });
      await reconcile();
    },
  };

  test.each([
    ['before', 'opening'],
    ['after', 'opening'],
    ['before', 'closing'],
    ['after', 'closing'],
    ['before', 'the report'],
    ['after', 'the report'],
  ] as const)('killed %s the write of %s, it converges', async (when, step) => {
    await steps[step]?.();
    windows.interrupt(when);
    await expect(reconcile()).rejects.toThrow('connection broke');
    const next = leader();
    await untilDone(next, 'drill');
    edit({ close: true });
    await next();
    await next();
    now = at('12:01:05');
    await next();
    expect(status()).toMatchObject({
      phase: 'Completed',
      openedAt: '2026-11-21T12:00:00.000Z',
      closedAt: '2026-11-21T12:00:00.000Z',
      closeReason: 'Manual',
    });
    expect(sweeps.filter((interim) => !interim)).toHaveLength(1);
    expect(new Set(events.reasons()).size).toBe(events.reasons().length);
  });
});

describe('a restore that ended before Gatehouse saw it', () => {
  const source = { type: 'Detector', detector: 'velero' } as const;

  test('is reported as unchecked at admission', async () => {
    create({ source, close: true });
    await reconcile();
    expect(condition('CheckedAtAdmission')).toMatchObject({ status: 'False', reason: 'Unobserved' });
  });

  test('is not, if a replica opened its window, or if it closes later', async () => {
    create({ source });
    await reconcile();
    edit({ close: true });
    await reconcile();
    expect(status()?.closedAt).toBeDefined();
    expect(condition('CheckedAtAdmission')).toBeUndefined();
  });
});

describe('windows that share a sweep', () => {
  const other = (name: string, phase: NonNullable<RestoreWindowStatus['phase']>, openedAt: string): void => {
    windows.add({
      ...{ apiVersion: 'gatehouse.dev/v1alpha1', kind: 'RestoreWindow', metadata: { name } },
      spec: { principals: [{ user: 'velero' }], expiresAt: '2026-11-21T13:00:00Z' },
      status: { phase, openedAt },
    });
  };

  test('F16: sweep from the beginning of the first one whose report is not final', async () => {
    const since: Date[] = [];
    reconcile = leader({
      sweep: (options) => {
        since.push(options.since);
        return Promise.resolve(clusterSweep(options.interim));
      },
    });
    other('january', 'Completed', '2026-01-01T00:00:00Z');
    other('refused', 'Refused', '2026-01-01T00:00:00Z');
    await closeAtNoon();
    other('running', 'Settling', '2026-11-20T00:00:00Z');
    now = at('12:02:00');
    await reconcile();
    expect(since).toEqual([at('12:00:00'), new Date('2026-11-20T00:00:00Z')]);
  });

  test('report no default that an older object lacks', async () => {
    const lacking = (name: string): Violation => ({
      ...{ policy: 'servers', field: 'spec.tier', reason: 'DefaultWouldChange' },
      object: { ...violation.object, name },
    });
    reconcile = leader({
      sweep: ({ interim }) => {
        const { violations, ...result } = clusterSweep(interim);
        const created = (name: string, creationTimestamp: string) =>
          violations.map((one) => ({
            ...one,
            violation: lacking(name),
            written: { changedAt: [], creationTimestamp },
          }));
        return Promise.resolve({
          ...result,
          violations: [
            ...created('old', '2026-11-21T11:00:00Z'),
            ...created('restored', '2026-11-21T12:00:00Z'),
          ],
        });
      },
    });
    found = { violations: [violation], unreadable: [] };
    await closeAtNoon();
    expect(status()?.violations?.items.map(({ object }) => object.name)).toEqual(['restored']);
  });
});
