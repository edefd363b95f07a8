// suite: shared-plane, sandbox: long
/** What a RestoreWindow may do, depending on what its opener may open. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';

import type { RestoreWindow, RestoreWindowSpec } from '../../src/api/restore-window.ts';
import { clusterAdmin } from '../../src/cli/sandbox/tour-objects.ts';
import type { KubeObject } from '../../src/json/kube-object.ts';
import type { KubeClient } from '../../src/kube/client.ts';
import { OPENER_SCOPE, SWEEP_FINALIZER } from '../../src/restore/window.ts';
import { ADMISSION_POLICIES, createNamespace, RESTORE_WINDOWS, type Cluster } from '../support/cluster.ts';
import { refusal, seeInForce, startGatehouse, untilRefused, seePhase } from '../support/gatehouse-cluster.ts';
import { startReplica, type Replica } from '../support/gatehouse.ts';
import { eventually } from '../support/processes.ts';
import {
  application,
  APPLICATIONS,
  type Application,
  type ApplicationSpec,
} from '../support/restore-kinds.ts';
import { installKinds } from '../support/restore-scene.ts';
import { admissionPolicy, restoreWindow, grant } from '../support/objects.ts';
import { seeEvent } from '../support/injection-objects.ts';

const RBAC = 'rbac.authorization.k8s.io';
const TOOL = 'system:serviceaccount:team-a:tool';

let cluster: Cluster;
let replica: Replica;
/** May open windows in the namespace team-a only. */
let carol: KubeClient;
/** An administrator, as a member of the group `operators`. */
let dave: KubeClient;
let tool: KubeClient;

/** Marks every Application as reviewed, and keeps slugs unique in the cluster, and parents in each namespace. */
const policy = admissionPolicy('reviewed', {
  match: { apiGroups: ['restore.example.com'], apiVersions: ['v1'], resources: ['applications'] },
  mutations: [{ name: 'mark', expression: "{'spec': {'peer': {'namespace': 'reviewed'}}}" }],
  validate: {
    unique: [
      { name: 'slug', paths: ['spec.slug'] },
      { name: 'parent', paths: ['spec.parent'], scope: 'Namespace' },
    ],
  },
});

const windows = { apiGroups: ['gatehouse.dev'], resources: ['restorewindows'] };
const operators: KubeObject & { readonly roleRef: object; readonly subjects: readonly object[] } = {
  apiVersion: `${RBAC}/v1`,
  kind: 'ClusterRoleBinding',
  metadata: { name: 'operators' },
  roleRef: { apiGroup: RBAC, kind: 'ClusterRole', name: 'cluster-admin' },
  subjects: [{ apiGroup: RBAC, kind: 'Group', name: 'operators' }],
};

beforeAll(async () => {
  ({ cluster, replica } = await startGatehouse({
    prepare: async (fresh) => {
      await installKinds(fresh);
      await Promise.all(['team-a', 'team-b'].map((name) => createNamespace(fresh, name)));
      await fresh.apply(
        operators,
        clusterAdmin('tool', TOOL),
        ...grant(
          'carol',
          ['carol'],
          [
            { ...windows, verbs: ['get', 'create', 'patch', 'delete'] },
            { apiGroups: ['restore.example.com'], resources: ['applications'], verbs: ['create'] },
          ],
        ),
        ...grant('carol', ['carol'], [{ ...windows, verbs: ['open'] }], 'team-a'),
      );
    },
  }));
  carol = cluster.impersonate({ user: 'carol', groups: ['system:authenticated'] });
  dave = cluster.impersonate({ user: 'dave', groups: ['system:authenticated', 'operators'] });
  tool = cluster.impersonate({ user: TOOL, groups: ['system:authenticated', 'system:serviceaccounts'] });
  await cluster.apply(policy);
  await seeInForce(cluster, 'reviewed');
  await cluster.admin.create(APPLICATIONS, application('team-b', 'holder', { slug: 'taken' }));
  await untilRefused('a duplicate slug', 'slug', () =>
    cluster.admin.create(APPLICATIONS, application('team-b', 'other', { slug: 'taken' }), { dryRun: true }),
  );
});

afterAll(() => cluster.stop());

const window = (
  name: string,
  principals: RestoreWindowSpec['principals'],
  namespace?: string,
  metadata: object = {},
) =>
  restoreWindow(
    name,
    { principals, ...(namespace === undefined ? {} : { match: { namespaces: { include: [namespace] } } }) },
    metadata,
  );

/** Resolves when the leader has opened the window: then the only replica knows it. */
const openWindow = async (client: KubeClient, wanted: RestoreWindow): Promise<RestoreWindow> => {
  await client.create(RESTORE_WINDOWS, wanted);
  const { name = '' } = wanted.metadata;
  return await seePhase(cluster, name, 'Open');
};

const write = (client: KubeClient, name: string, spec: ApplicationSpec): Promise<Application> =>
  client.create<Application>(APPLICATIONS, application('team-a', name, spec));

describe('a user who may open windows in a namespace', () => {
  test.each<[string, RestoreWindowSpec['principals'][number]]>([
    ['a group of administrators', { group: 'operators' }],
    ['another user', { user: 'dave' }],
    ['service accounts of another namespace', { group: 'system:serviceaccounts:team-b' }],
  ])('cannot open one for %s', async (_who, principal) => {
    const refused = await refusal(
      carol.create(RESTORE_WINDOWS, window('foreign', [{ user: 'carol' }, principal], 'team-a')),
    );
    expect(refused.code).toBe(403);
    expect(refused.message).toContain('spec.principals[1]: you may open RestoreWindows only in team-a');
  });

  test('restores in that namespace, but cannot skip a mutation or take a unique value of the cluster', async () => {
    await openWindow(carol, window('carols', [{ user: 'carol' }], 'team-a'));
    await write(cluster.admin, 'first', { parent: 'p' });
    expect((await refusal(write(carol, 'thief', { slug: 'taken' }))).message).toContain('"taken" is held by');
    // A value that is unique in the namespace is deferred, so the window is in force.
    const second = await write(carol, 'second', { parent: 'p' });
    expect(second.spec.peer?.namespace).toBe('reviewed');
  });

  test('is no restorer for the kinds of Gatehouse', async () => {
    await carol.delete(RESTORE_WINDOWS, { name: 'carols' });
  });
});

test('an administrator can open a window in a namespace for any restorer, and it skips mutations', async () => {
  await openWindow(cluster.admin, window('admins', [{ user: TOOL }], 'team-a'));
  const restored = await write(tool, 'restored', { slug: 'taken' });
  expect(restored.spec.peer).toBeUndefined();
});

describe('the record of the opener', () => {
  const forged = { annotations: { [OPENER_SCOPE]: 'Cluster' } };
  const scopeOf = async (name: string) =>
    (await cluster.admin.get<RestoreWindow>(RESTORE_WINDOWS, { name }))?.metadata.annotations?.[OPENER_SCOPE];

  test('is Cluster for an administrator, and absent for another user, regardless of the request', async () => {
    await cluster.admin.create(RESTORE_WINDOWS, window('record-admin', [{ user: 'restorer' }], 'team-a'));
    await carol.create(
      RESTORE_WINDOWS,
      window('record', [{ user: 'system:serviceaccount:team-a:other' }], 'team-a', forged),
    );
    await carol.apply(
      RESTORE_WINDOWS,
      window('record-applied', [{ user: 'system:serviceaccount:team-a:other' }], 'team-a', forged),
      { fieldManager: 'carol' },
    );
    expect(await scopeOf('record-admin')).toBe('Cluster');
    expect(await scopeOf('record')).toBeUndefined();
    expect(await scopeOf('record-applied')).toBeUndefined();
  });
});

test('a window never locks out users who may open windows for the whole cluster', async () => {
  await openWindow(cluster.admin, window('locked', [{ group: 'operators' }, { user: TOOL }]));
  const label = { metadata: { labels: { edited: 'yes' } } };
  await eventually('the service account of the tool is a restorer', async () =>
    (await refusal(tool.patchMerge(ADMISSION_POLICIES, { name: 'reviewed' }, label))).message.includes(
      'a restorer may not write',
    ),
  );
  await dave.patchMerge(ADMISSION_POLICIES, { name: 'reviewed' }, label);
  await dave.patchMerge(RESTORE_WINDOWS, { name: 'locked' }, { spec: { close: true } });
});

describe('a window that a user deletes', () => {
  // An older window that is still open would report what this one deferred.
  beforeAll(async () => {
    const all = async () => (await cluster.admin.listAll<RestoreWindow>(RESTORE_WINDOWS)).items;
    for (const { metadata } of await all())
      await cluster.admin.delete(RESTORE_WINDOWS, { name: metadata.name ?? '' });
    await eventually('no window is left', async () => (await all()).length === 0);
  });

  const read = (name: string) => cluster.admin.get<RestoreWindow>(RESTORE_WINDOWS, { name });
  const untilGone = (name: string) =>
    eventually('the window is gone', async () => (await read(name)) === undefined);
  /** The Event about the result of the sweep, which outlives the window. */
  const untilReported = (name: string) => seeEvent(cluster, 'default', name, 'ViolationsFound');

  test('is gone after its sweep, and defers nothing until then', async () => {
    await openWindow(carol, window('deleted', [{ user: 'carol' }], 'team-a'));
    await write(cluster.admin, 'parent', { parent: 'q' });
    await write(carol, 'deferred', { parent: 'q' });
    await carol.delete(RESTORE_WINDOWS, { name: 'deleted' });
    expect((await read('deleted'))?.metadata).toMatchObject({
      finalizers: [SWEEP_FINALIZER],
      deletionTimestamp: expect.any(String) as string,
    });
    await eventually('a duplicate is refused', async () => {
      const again = application('team-a', 'late', { parent: 'q' });
      return await carol.create(APPLICATIONS, again, { dryRun: true }).then(
        () => false,
        () => true,
      );
    });
    await untilGone('deleted');
    await untilReported('deleted');
  });

  test('keeps its finalizer until then, unless an administrator removes it', async () => {
    await openWindow(carol, window('kept', [{ user: 'carol' }], 'team-a'));
    const without = { metadata: { finalizers: [] } };
    const refused = await refusal(carol.patchMerge(RESTORE_WINDOWS, { name: 'kept' }, without));
    expect(refused.message).toContain('metadata.finalizers');
    await carol.delete(RESTORE_WINDOWS, { name: 'kept' });
    expect((await refusal(carol.patchMerge(RESTORE_WINDOWS, { name: 'kept' }, without))).code).toBe(403);
    await cluster.admin.patchMerge(RESTORE_WINDOWS, { name: 'kept' }, without);
    expect(await read('kept')).toBeUndefined();
  });

  test('while no replica runs is swept by the next leader', async () => {
    await openWindow(carol, window('alone', [{ user: 'carol' }], 'team-a'));
    await write(carol, 'deferred-alone', { parent: 'q' });
    const { port } = replica;
    await replica.program.stop(15_000);
    await cluster.admin.delete(RESTORE_WINDOWS, { name: 'alone' });
    expect(await read('alone')).toBeDefined();
    replica = await startReplica(cluster.plane, { name: 'two', port });
    await replica.whenReady();
    await untilGone('alone');
    await untilReported('alone');
  });
});
