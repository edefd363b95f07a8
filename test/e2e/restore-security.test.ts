// suite: shared-plane, sandbox: long
/**
 * Which users can have checks deferred, and which cannot. research/restore.md explains the ids.
 */
import { setTimeout } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';

import type { RestoreDetector } from '../../src/api/restore-detector.ts';
import type { RestoreWindow, RestoreWindowSpec } from '../../src/api/restore-window.ts';
import { clusterAdmin } from '../../src/cli/sandbox/tour-objects.ts';
import type { KubeClient } from '../../src/kube/client.ts';
import type { KubeObject } from '../../src/json/kube-object.ts';
import { resourcePath } from '../../src/kube/object.ts';
import {
  events,
  validatingAdmissionPolicies,
  validatingAdmissionPolicyBindings,
} from '../../src/kube/well-known.ts';
import { RESTORE_DETECTORS } from '../../src/runtime/resources.ts';
import {
  ADMISSION_POLICIES,
  CLUSTER_ROLE_BINDINGS,
  createNamespace,
  RESTORE_WINDOWS,
  type Cluster,
} from '../support/cluster.ts';
import { startGatehouse, seePhase, outcomeOf } from '../support/gatehouse-cluster.ts';
import type { Replica } from '../support/gatehouse.ts';
import { grant, restoreWindow, type EventObject } from '../support/objects.ts';
import { eventually } from '../support/processes.ts';
import { application, APPLICATIONS, applicationPolicy } from '../support/restore-kinds.ts';
import {
  asReturned,
  enforceApplications,
  installKinds,
  trustVelero,
  untilDetectorCounts,
  verdictOf,
  windowNameOf,
} from '../support/restore-scene.ts';
import { createVelero, installVelero, type Velero } from '../support/velero.ts';
import { createToolClient, restoreLabels, RESTORES, VELERO } from '../support/velero-client.ts';

const HOUR_MS = 3_600_000;
/** A backup tool with all permissions. No detector names it. */
const FORMER = { user: 'system:serviceaccount:tools:former', groups: ['system:masters'] };
/** Of a window whose final sweep found nothing. */
const SWEPT = {
  phase: 'Completed',
  lastSweep: {
    startedAt: '2999-01-01T00:00:00Z',
    finishedAt: '2999-01-01T00:00:00Z',
    objectsScanned: 1,
    interim: false,
  },
};
const OURS = { user: 'system:serviceaccount:gatehouse-system:gatehouse', groups: ['system:masters'] };

let cluster: Cluster;
let replica: Replica;
let velero: Velero;
let restorer: KubeClient;
/** Can create RestoreWindows, and nothing else that matters here. */
let bob: KubeClient;

beforeAll(async () => {
  ({ cluster, replica } = await startGatehouse({
    prepare: async (fresh) => {
      await installKinds(fresh);
      await installVelero(fresh);
      await fresh.apply(...letBob('bob-creates', ['get', 'create', 'patch']));
      await Promise.all(['team-a', 'team-b'].map((name) => createNamespace(fresh, name)));
    },
  }));
  await enforceApplications(cluster);
  await trustVelero(cluster);
  velero = createVelero(cluster.plane);
  restorer = cluster.impersonate(VELERO);
  bob = cluster.impersonate({ user: 'bob', groups: ['system:authenticated'] });
});

afterAll(async () => {
  await velero.stop();
  await cluster.stop();
});

const child = (namespace: string, name: string) => application(namespace, name, { zone: `of-${name}` });

const window = (name: string, change: Partial<RestoreWindowSpec> = {}, metadata: object = {}) =>
  restoreWindow(
    name,
    { principals: [{ user: 'system:serviceaccount:tools:restore' }], reason: 'drill', ...change },
    metadata,
  );

/** A detector that trusts Velero in every namespace. */
const detector = (name: string): RestoreDetector => ({
  apiVersion: 'gatehouse.dev/v1alpha1',
  kind: 'RestoreDetector',
  metadata: { name },
  spec: {
    watch: { apiGroup: 'velero.io', version: 'v1', resource: 'restores' },
    namespaces: ['*'],
    phasePath: 'status.phase',
    activeValues: ['InProgress'],
    terminalValues: ['Completed'],
    principals: [{ user: VELERO.user }],
  },
});

/** RBAC for bob on RestoreWindows: cluster-wide, or in a namespace, although RestoreWindows are cluster-scoped. */
const letBob = (name: string, verbs: readonly string[], namespace?: string) =>
  grant(name, ['bob'], [{ apiGroups: ['gatehouse.dev'], resources: ['restorewindows'], verbs }], namespace);

const createRestore = (namespace: string, name: string, more: object = {}) =>
  cluster.admin.create<KubeObject & { readonly spec: object }>(RESTORES, {
    metadata: { namespace, name },
    spec: { backupName: 'b1' },
    ...more,
  });

test('S1: a Restore in an untrusted namespace does not open a window, and gets an Event', async () => {
  // In a trusted namespace, the Restore must open a window: otherwise this test could not fail.
  await untilDetectorCounts(cluster);
  await eventually(
    'the window of the trusted Restore is closed',
    async () => (await verdictOf(restorer, child('team-a', 's1'), { dryRun: true })) !== 'allowed',
  );
  await createRestore('team-a', 'forged', {
    status: { phase: 'InProgress', startTimestamp: new Date().toISOString() },
  });
  expect(await verdictOf(restorer, child('team-a', 's1'))).toContain('spec.zone');
  await eventually('an Event on that Restore', async () => {
    const { items } = await cluster.admin.listAll<EventObject>(events, { namespace: 'team-a' });
    return items.some(({ involvedObject }) => involvedObject.name === 'forged');
  });
});

describe('S2: opening a window', () => {
  test('requires the verb open in addition to create', async () => {
    expect(await outcomeOf(bob.create(RESTORE_WINDOWS, window('s2')))).toContain('the verb "open"');
    await cluster.apply(...letBob('bob-opens', ['open']));
    await eventually('the grant is in force', async () => (await dryRunOf(window('s2'))) === 'allowed');
    await bob.create(RESTORE_WINDOWS, window('s2'));
    await cluster.admin.delete(CLUSTER_ROLE_BINDINGS, { name: 'bob-opens' });
    await eventually('the grant is gone', async () => (await dryRunOf(window('s2-late'))) !== 'allowed');
  });

  test('for certain namespaces requires the verb in each of them', async () => {
    const only = (name: string, ...include: readonly string[]) =>
      window(name, {
        principals: include.map((namespace) => ({ group: `system:serviceaccounts:${namespace}` })),
        match: { namespaces: { include } },
      });
    await cluster.apply(...letBob('bob-opens-here', ['open'], 'team-a'));
    await eventually(
      'the grant is in force',
      async () => (await dryRunOf(only('s2-a', 'team-a'))) === 'allowed',
    );
    await bob.create(RESTORE_WINDOWS, only('s2-a', 'team-a'));
    for (const refused of [only('s2-ab', 'team-a', 'team-b'), only('s2-b', 'team-b'), window('s2-all')])
      expect(await outcomeOf(bob.create(RESTORE_WINDOWS, refused))).toContain('the verb "open"');
  });
});

/** The outcome of opening a window as the administrator. */
const opening = (...wanted: Parameters<typeof window>) =>
  outcomeOf(cluster.admin.create(RESTORE_WINDOWS, window(...wanted)));

const dryRunOf = (opened: RestoreWindow) => outcomeOf(bob.create(RESTORE_WINDOWS, opened, { dryRun: true }));

describe('S3: a restorer', () => {
  test('cannot create, change or delete windows, detectors and policies, although RBAC allows it everything', async () => {
    await cluster.admin.create(RESTORE_WINDOWS, window('s3'));
    const labels = { 'velero.io/restore-name': 'r1' };
    const writes: readonly Promise<unknown>[] = [
      restorer.create(RESTORE_WINDOWS, window('s3-own')),
      restorer.patchMerge(RESTORE_WINDOWS, { name: 's3' }, { spec: { sweep: { approved: true } } }),
      restorer.patchMerge(RESTORE_WINDOWS, { name: 's3' }, { spec: { close: true } }),
      restorer.patchMerge(RESTORE_WINDOWS, { name: 's3' }, { metadata: { labels } }),
      restorer.delete(RESTORE_WINDOWS, { name: 's3' }),
      restorer.create(RESTORE_DETECTORS, detector('s3-own')),
      restorer.patchMerge(RESTORE_DETECTORS, { name: 'velero' }, { spec: { namespaces: ['*'] } }),
      restorer.patchMerge(RESTORE_DETECTORS, { name: 'velero' }, { metadata: { labels } }),
      restorer.delete(RESTORE_DETECTORS, { name: 'velero' }),
      restorer.create(ADMISSION_POLICIES, { ...applicationPolicy, metadata: { name: 's3-own' } }),
      restorer.patchMerge(ADMISSION_POLICIES, { name: 'applications' }, { spec: { validate: {} } }),
      restorer.delete(ADMISSION_POLICIES, { name: 'applications' }),
    ];
    for (const said of await Promise.all(writes.map(outcomeOf)))
      expect(said).toContain('a restorer may not write');
    const statuses: readonly Promise<unknown>[] = [
      restorer.patchStatus(RESTORE_WINDOWS, { name: 's3' }, { status: SWEPT }),
      restorer.patchStatus(RESTORE_DETECTORS, { name: 'velero' }, { status: { conditions: [] } }),
      restorer.patchStatus(ADMISSION_POLICIES, { name: 'applications' }, { status: { inForce: null } }),
    ];
    for (const said of await Promise.all(statuses.map(outcomeOf)))
      expect(said).toMatch(/only Gatehouse writes|a restorer may not write/); // the policy of the API server comes first
    const live = await cluster.admin.get<RestoreWindow>(RESTORE_WINDOWS, { name: 's3' });
    expect(live?.spec).toMatchObject({ reason: 'drill' });
    expect(live?.spec.close).not.toBe(true);
  });

  test('cannot make its window count as swept, even after it closed', async () => {
    const principals = [{ user: FORMER.user }];
    await cluster.admin.create(RESTORE_WINDOWS, window('s3-former', { principals }));
    await untilOpen('s3-former');
    await cluster.admin.patchMerge(RESTORE_WINDOWS, { name: 's3-former' }, { spec: { close: true } });
    await cluster.see<RestoreWindow>(
      'the window is closed',
      RESTORE_WINDOWS,
      { name: 's3-former' },
      ({ status }) => status?.phase !== 'Open',
    );
    const former = cluster.impersonate(FORMER);
    for (const client of [former, cluster.admin]) {
      const swept = client.patchStatus(RESTORE_WINDOWS, { name: 's3-former' }, { status: SWEPT });
      expect(await outcomeOf(swept)).toContain('only Gatehouse writes restorewindows/status: ');
    }
    const unheld = { metadata: { finalizers: [] } };
    expect(
      await outcomeOf(former.patchMerge(RESTORE_WINDOWS, { name: 's3-former' }, unheld, { dryRun: true })),
    ).toContain('metadata.finalizers');
  });
});

describe('S4: a window from a backup', () => {
  const restored = { labels: { 'velero.io/restore-name': 'r1', 'velero.io/backup-name': 'b1' } };

  test('does not open, even if it was stored without admission', async () => {
    const principals = [{ user: VELERO.user }];
    await cluster.admin.create(RESTORE_WINDOWS, window('s4', { principals }));
    const verdict = (name: string) => verdictOf(restorer, child('team-a', name), { dryRun: true });
    await eventually('the window is open', async () => (await verdict('s4')) === 'allowed');
    expect(
      await outcomeOf(cluster.admin.patchMerge(RESTORE_WINDOWS, { name: 's4' }, { metadata: restored })),
    ).toContain('a window that comes from a backup stays closed');
    await cluster.impersonate(OURS).patchMerge(RESTORE_WINDOWS, { name: 's4' }, { metadata: restored });
    await eventually('the forged window is not open', async () =>
      (await verdict('s4')).includes('spec.zone'),
    );
    await cluster.admin.delete(RESTORE_WINDOWS, { name: 's4' });
  });

  test('is refused, whichever user writes it', async () => {
    const past = new Date(Date.now() - HOUR_MS).toISOString();
    expect(await opening('s4-a', {}, restored)).toContain('a window that comes from a backup stays closed');
    expect(await opening('s4-b', { expiresAt: past })).toContain('spec.expiresAt');
  });
});

describe('S5: an open window', () => {
  const inMs = (ms: number) => new Date(Date.now() + ms).toISOString();

  test('lasts at most a day, and two hours by default', async () => {
    const leftOf = ({ spec }: RestoreWindow) => (Date.parse(spec.expiresAt) - Date.now()) / HOUR_MS;
    const long = await cluster.admin.create(
      RESTORE_WINDOWS,
      window('s5-long', { expiresAt: inMs(72 * HOUR_MS) }),
    );
    expect(leftOf(long)).toBeCloseTo(24, 1);
    const { principals, reason } = window('s5-silent').spec;
    const silent = await cluster.admin.create(RESTORE_WINDOWS, {
      ...window('s5-silent'),
      spec: { principals, reason },
    } as RestoreWindow); // the webhook completes it
    expect(leftOf(silent)).toBeCloseTo(2, 1);
  });
});

test('S6: each deferred request is in the audit log with its window, its policy and its user', async () => {
  const names = ['s6-a', 's6-b', 's6-c'];
  const backup = names.map((name) => asReturned(child('team-b', name)));
  expect((await velero.restore({ name: 's6', backup })).errors).toEqual([]);
  const deferredOf = (name: string) =>
    cluster.plane
      .auditLog()
      .filter(
        ({ verb, objectRef, annotations }) =>
          verb === 'create' &&
          objectRef?.name === name &&
          Object.entries(annotations ?? {}).some(
            ([key, value]) => key.endsWith('/deferred') && value.includes('applications/zone'),
          ),
      );
  await eventually('all are logged', () => names.every((name) => deferredOf(name).length === 1));
  for (const { impersonatedUser } of names.flatMap(deferredOf))
    expect(impersonatedUser?.username).toBe(VELERO.user);
});

describe('S7: the window of a Restore', () => {
  const ofRestore = async (uid: string | undefined) =>
    (await cluster.admin.listAll<RestoreWindow>(RESTORE_WINDOWS)).items.find(
      ({ spec }) => spec.source?.type === 'Detector' && spec.source.ref?.uid === uid,
    );

  /** An object as Velero writes it. */
  const restored = (name: string) => {
    const object = child('team-a', name);
    return { ...object, metadata: { ...object.metadata, labels: restoreLabels('b1', name) } };
  };

  test('has a name that no user can take, and opens even if another window has this name', async () => {
    const restore = await createRestore('velero', 's7');
    const squatted = await windowNameOf(cluster, 's7');
    for (const name of [squatted, 'rollback-7', 'startup-1700000000'])
      expect(await opening(name)).toContain('metadata.name');
    // For example a window that is older than the webhook.
    await cluster.impersonate(OURS).create(RESTORE_WINDOWS, window(squatted));
    const patch = (status: object) =>
      cluster.admin.patchMerge(RESTORES, { namespace: 'velero', name: 's7' }, { status });
    await patch({ phase: 'InProgress', startTimestamp: new Date().toISOString() });
    expect(await verdictOf(restorer, restored('s7'))).toBe('allowed');
    await patch({ phase: 'Completed' });
    await eventually('its own window has the report', async () => {
      const own = await ofRestore(restore.metadata?.uid);
      return own?.status?.phase === 'CompletedWithViolations' && own.metadata.name !== squatted;
    });
    await cluster.admin.delete(RESTORE_WINDOWS, { name: squatted });
  });

  test('defers nothing for another user, even with the labels and the user agent of Velero', async () => {
    const run = await velero.begin({ name: 's7-other', backup: [] });
    expect(await verdictOf(restorer, restored('s7-other'), { dryRun: true })).toBe('allowed');
    const groups = ['system:authenticated'];
    const pretender = createToolClient(cluster.plane, { ...VELERO, user: 'alice', groups });
    const path = resourcePath(APPLICATIONS, { namespace: 'team-a' });
    expect((await pretender.send('POST', path, restored('s7-other'))).code).toBe(403);
    await pretender.stop();
    await run.finish();
  });

  test('comes back if a user deletes it while the Restore is active', async () => {
    const run = await velero.begin({ name: 's7-deleted', backup: [] });
    const first = await cluster.see<RestoreWindow>('the window', RESTORE_WINDOWS, {
      name: await windowNameOf(cluster, 's7-deleted'),
    });
    await cluster.admin.delete(RESTORE_WINDOWS, { name: first.metadata.name ?? '' });
    expect(await verdictOf(restorer, restored('s7-deleted'))).toBe('allowed');
    await run.finish();
    await eventually('another window has the report, and the first one is gone', async () => {
      const { items } = await cluster.admin.listAll<RestoreWindow>(RESTORE_WINDOWS);
      const own = items.filter(({ spec }) => spec.source?.ref?.uid === first.spec.source?.ref?.uid);
      return (
        own.every(({ metadata }) => metadata.uid !== first.metadata.uid) &&
        own.some(({ status }) => status?.phase === 'CompletedWithViolations')
      );
    });
  });

  test('also opens for a Restore that is older than its detector', async () => {
    const user = 'system:serviceaccount:team-b:velero';
    await cluster.apply(clusterAdmin('team-b-velero', user));
    const startTimestamp = new Date(Date.now() - 60_000).toISOString();
    const status = { phase: 'InProgress', startTimestamp };
    const restore = await createRestore('team-b', 's7-older', { status });
    await setTimeout(1_100); // creation times have whole seconds
    const late = detector('late');
    const trusting: RestoreDetector = {
      ...late,
      spec: { ...late.spec, namespaces: ['team-b'], principals: [{ user }] },
    };
    await cluster.apply(trusting);
    const tool = cluster.impersonate({ user, groups: ['system:authenticated'] });
    await eventually(
      'its writes are deferred',
      async () => (await verdictOf(tool, child('team-b', 's7-older'))) === 'allowed',
    );
    expect(await ofRestore(restore.metadata?.uid)).toBeDefined();
    await cluster.admin.delete(RESTORE_DETECTORS, { name: 'late' });
  });
});

/** Waits until the leader has opened the window: then every replica that runs here knows it. */
const untilOpen = (name: string) => seePhase(cluster, name, 'Open');

// This test comes last: it ends the replica.
test('S3: the API server itself refuses a restorer while no replica answers', async () => {
  await cluster.see('the policy', validatingAdmissionPolicies, { name: 'gatehouse-restorers' });
  await cluster.see('its binding', validatingAdmissionPolicyBindings, { name: 'gatehouse-restorers' });
  await replica.program.stop(15_000);
  const change = { metadata: { labels: { restored: 'yes' } } };
  await eventually('the restorer is refused', async () =>
    (await outcomeOf(restorer.patchMerge(ADMISSION_POLICIES, { name: 'applications' }, change))).includes(
      'ValidatingAdmissionPolicy',
    ),
  );
  const inForce = { status: { inForce: null } };
  expect(
    await outcomeOf(restorer.patchStatus(ADMISSION_POLICIES, { name: 'applications' }, inForce)),
  ).toContain('ValidatingAdmissionPolicy');
});
