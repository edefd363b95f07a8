// suite: shared-plane, sandbox: long
/** An open window: what other users can do with it, and what it does not defer for its restorer. */
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, expect, test } from 'vitest';

import type { RestoreWindow } from '../../src/api/restore-window.ts';
import { clusterAdmin } from '../../src/cli/sandbox/tour-objects.ts';
import type { KubeClient } from '../../src/kube/client.ts';
import { resourcePath } from '../../src/kube/object.ts';
import { createNamespace, RESTORE_WINDOWS, untilGone, type Cluster } from '../support/cluster.ts';
import {
  outcomeOf,
  seeInForce,
  seePhase,
  startGatehouse,
  untilRefused,
} from '../support/gatehouse-cluster.ts';
import { actionsRole, admissionPolicy, grant, restoreWindow } from '../support/objects.ts';
import { application, APPLICATIONS, ZONES, zone, type ApplicationSpec } from '../support/restore-kinds.ts';
import { installKinds } from '../support/restore-scene.ts';
import { VELERO } from '../support/velero-client.ts';

const GROUP = 'restore.example.com';
const here = (name: string) => ({ namespace: 'team-a', name });

const reference = (name: string, resource: string, onTargetDelete: string) => ({
  name,
  path: `spec.${name}`,
  target: { apiGroup: GROUP, resource },
  onTargetDelete,
});

const policy = admissionPolicy('deferring', {
  match: { apiGroups: [GROUP], apiVersions: ['v1'], resources: ['applications'] },
  restore: { rules: 'Defer', schema: 'Defer' },
  validate: {
    immutable: ['spec.slug'],
    references: [reference('zone', 'zones', 'Cascade'), reference('parent', 'applications', 'Restrict')],
    unique: [{ name: 'slug', paths: ['spec.slug'] }],
    rules: [
      {
        expression:
          "object.metadata.?labels['author'].orValue('') in ['', request.userInfo.username.split(':')[0]]",
        message: 'label of another author',
      },
    ],
  },
});

let cluster: Cluster;
let restorer: KubeClient;
/** An administrator of the namespace team-a, who may open windows there. */
let tina: KubeClient;

beforeAll(async () => {
  ({ cluster } = await startGatehouse({
    arrangement: 'both',
    settings: { 'unique-settle': '3s' },
    prepare: async (fresh) => {
      await installKinds(fresh);
      await createNamespace(fresh, 'team-a');
      const verbs = ['get', 'list', 'create', 'patch'];
      const windows = { apiGroups: ['gatehouse.dev'], resources: ['restorewindows'], verbs };
      await fresh.apply(
        clusterAdmin('restorer', VELERO.user),
        actionsRole('applications', GROUP, ['applications']),
        ...grant('tina', ['tina'], [windows]),
        ...grant('tina', ['tina'], [{ apiGroups: ['*'], resources: ['*'], verbs: ['*'] }], 'team-a'),
      );
    },
  }));
  restorer = cluster.impersonate({ user: VELERO.user, groups: ['system:authenticated'] });
  tina = cluster.impersonate({ user: 'tina', groups: ['system:authenticated'] });
  await cluster.apply(policy);
  await seeInForce(cluster, 'deferring');
  await untilRefused('an Application without its zone', 'spec.zone', () =>
    tina.create(APPLICATIONS, application('team-a', 'probe', { zone: 'none' }), { dryRun: true }),
  );
  await cluster.admin.create(
    RESTORE_WINDOWS,
    restoreWindow('drill', { principals: [{ user: VELERO.user }] }),
  );
  await seePhase(cluster, 'drill', 'Open');
});

afterAll(() => cluster.stop());

const write = (client: KubeClient, name: string, spec: ApplicationSpec, metadata: object = {}) =>
  outcomeOf(client.create(APPLICATIONS, application('team-a', name, spec, metadata)));

test('the restorer cannot evade what a window does not defer', async () => {
  expect(await write(restorer, 'parent', { slug: 'one' })).toBe('allowed');
  expect(await write(restorer, 'child', { parent: 'parent', zone: 'none' })).toBe('allowed');
  const author = { labels: { author: 'tina' } };
  expect(await write(restorer, 'other', {}, author)).toContain('label of another author');
  const changed = application('team-a', 'parent', { slug: 'two' });
  const changes: readonly Promise<unknown>[] = [
    restorer.patchMerge(APPLICATIONS, here('parent'), { spec: { slug: 'two' } }),
    restorer.patchJson(APPLICATIONS, here('parent'), [{ op: 'remove', path: '/spec/slug' }]),
    restorer.apply(APPLICATIONS, changed, { fieldManager: 'tool', force: true }),
  ];
  for (const said of await Promise.all(changes.map(outcomeOf))) expect(said).toContain('spec.slug');
  const path = resourcePath(APPLICATIONS, { namespace: 'team-a' });
  const query = { fieldSelector: 'metadata.name=parent' };
  const collection = cluster.adminRest.impersonate(VELERO).request({ method: 'DELETE', path, query });
  const deletions = [restorer.delete(APPLICATIONS, here('parent')), collection];
  for (const said of await Promise.all(deletions.map(outcomeOf)))
    expect(said).toContain('is still referenced by');
});

test('a value that a user took first is deferred for the restorer, and not for the next user', async () => {
  expect(await write(tina, 'first', { slug: 'raced' })).toBe('allowed');
  expect(await write(restorer, 'second', { slug: 'raced' })).toBe('allowed');
  expect(await write(tina, 'third', { slug: 'raced' })).toContain('spec.slug');
});

test("a restored object outlives the cascade of a deletion before it, and a tenant's window does not take its violation", async () => {
  await cluster.admin.create(ZONES, zone('z1'));
  expect(await write(tina, 'before', { zone: 'z1' })).toBe('allowed');
  await sleep(1_100); // creation times have whole seconds
  await cluster.admin.delete(ZONES, { name: 'z1' });
  expect(await write(restorer, 'restored', { zone: 'z1' })).toBe('allowed');
  // It covers the same objects, and is newer.
  const match = { namespaces: { include: ['team-a'] } };
  await tina.create(RESTORE_WINDOWS, restoreWindow('tina', { principals: [{ user: 'tina' }], match }));
  for (const name of ['tina', 'drill'])
    await cluster.admin.patchMerge(RESTORE_WINDOWS, { name }, { spec: { close: true } });
  const reportsOf = ({ status }: RestoreWindow) =>
    status?.violations?.items.map(({ object, reason }) => `${object.name} ${reason}`) ?? [];
  const drill = await seePhase(cluster, 'drill', 'CompletedWithViolations');
  expect(reportsOf(drill)).toEqual(
    expect.arrayContaining(['child TargetMissing', 'restored TargetMissing', 'second Duplicate']),
  );
  expect(reportsOf(await seePhase(cluster, 'tina', 'Completed'))).toEqual([]);
  await untilGone(cluster, APPLICATIONS, here('before'));
  expect(await cluster.admin.get(APPLICATIONS, here('restored'))).toBeDefined();
});
