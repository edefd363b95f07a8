// suite: shared-plane, sandbox: yes
/** The controller of deploy/examples/users, as its own process against a real API server (or the sandbox). */
import { cpSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';

import type { KubeObject } from '../../src/json/kube-object.ts';
import { namespaces } from '../../src/kube/well-known.ts';
import { ROLE_BINDINGS, SYSTEM_NAMESPACE, type Cluster, untilGone } from '../support/cluster.ts';
import { startReplica, type Replica } from '../support/gatehouse.ts';
import { startLaptop } from '../support/laptop.ts';
import { freePort } from '../support/processes.ts';
import {
  conditionOf,
  isReady,
  QUOTAS,
  startControllerScene,
  USERS,
  type ControllerScene,
  type Reconciled,
} from '../support/user-controllers-scene.ts';
import { seeCondition } from '../support/gatehouse-cluster.ts';
import { condition } from '../support/objects.ts';

type User = Reconciled & { readonly spec: { readonly mail: string; readonly cpu?: string } };
type Quota = KubeObject & { readonly spec?: { readonly hard?: Readonly<Record<string, string>> } };

let scene: ControllerScene;
let cluster: Cluster;
let replica: Replica;
let port: number;

beforeAll(async () => {
  port = await freePort();
  scene = await startControllerScene(port, ['users']);
  ({ cluster } = scene);
  replica = await start('one');
  await replica.whenReady();
});

afterAll(async () => {
  await replica.program.stop(15_000);
  await scene.stop();
});

const start = async (name: string): Promise<Replica> =>
  await startReplica(cluster.plane, {
    name,
    port,
    arrangement: 'both',
    settings: { handlers: scene.folder },
  });

const user = (name: string, spec: Partial<User['spec']> = {}): User => ({
  metadata: { name },
  spec: { mail: `${name}@example.com`, ...spec },
});
const untilReady = (name: string, generation = 1) =>
  cluster.see<User>(
    `${name} is ready`,
    USERS,
    { name },
    (found) =>
      found.status?.observedGeneration === generation && conditionOf(found, 'Ready')?.status === 'True',
  );
const writes = () =>
  cluster.plane
    .auditLog()
    .filter(
      ({ user: { username }, verb, objectRef }) =>
        username.startsWith(`system:serviceaccount:${SYSTEM_NAMESPACE}:`) &&
        !['get', 'list', 'watch'].includes(verb) &&
        ['users', 'namespaces', 'resourcequotas', 'rolebindings'].includes(objectRef?.resource ?? ''),
    )
    .map(({ verb, requestURI }) => `${verb} ${requestURI}`);

test('a User gets a Namespace, a quota and a RoleBinding, and is ready', async () => {
  await cluster.admin.create(USERS, user('alice'));
  const ready = await untilReady('alice');
  expect(ready.metadata?.finalizers).toEqual(['gatehouse.dev/controller-users']);
  expect(conditionOf(ready, 'NamespaceReady')?.status).toBe('True');
  const namespace = await cluster.admin.get(namespaces, { name: 'alice' });
  expect(namespace?.metadata?.ownerReferences).toMatchObject([
    { kind: 'User', name: 'alice', uid: ready.metadata?.uid, controller: true },
  ]);
  const place = { namespace: 'alice', name: 'user' };
  expect((await cluster.admin.get<Quota>(QUOTAS, place))?.spec?.hard).toEqual({ 'requests.cpu': '2' });
  expect(await cluster.admin.get(ROLE_BINDINGS, place)).toBeDefined();
});

test('a change of the User reaches what was applied, and a status write causes no other pass', async () => {
  await cluster.admin.patchMerge(USERS, { name: 'alice' }, { spec: { cpu: '4' } });
  await untilReady('alice', 2);
  const place = { namespace: 'alice', name: 'user' };
  expect((await cluster.admin.get<Quota>(QUOTAS, place))?.spec?.hard).toEqual({ 'requests.cpu': '4' });
  const before = writes();
  await cluster.admin.patchMerge(USERS, { name: 'alice' }, { metadata: { labels: { seen: 'yes' } } });
  await cluster.admin.create(USERS, user('after'));
  await untilReady('after');
  expect(
    writes()
      .slice(before.length)
      .filter((line) => line.includes('alice')),
  ).toEqual([]);
});

test('what a user deletes or changes is restored', async () => {
  const place = { namespace: 'alice', name: 'user' };
  await cluster.admin.delete(ROLE_BINDINGS, place);
  await cluster.see('the RoleBinding is back', ROLE_BINDINGS, place, undefined);
  await cluster.admin.patchMerge(QUOTAS, place, { spec: { hard: { 'requests.cpu': '100' } } });
  await cluster.see<Quota>(
    'the quota is back',
    QUOTAS,
    place,
    ({ spec }) => spec?.hard?.['requests.cpu'] === '4',
  );
});

test('an object of another owner is not taken, and the condition reports it until it is gone', async () => {
  await cluster.admin.create(namespaces, { metadata: { name: 'bob' } });
  const before = await cluster.admin.get(namespaces, { name: 'bob' });
  await cluster.admin.create(USERS, user('bob'));
  const refused = await seeCondition(cluster, USERS, 'bob', 'Ready', 'False');
  expect(condition(refused, 'Ready')).toMatchObject({
    reason: 'ReconcileFailed',
    message: 'Namespace bob exists and was not created for User bob: delete it, or apply it with adopt',
  });
  expect(condition(refused, 'Reconciling')?.status).toBe('True');
  expect((await cluster.admin.get(namespaces, { name: 'bob' }))?.metadata?.labels).toEqual(
    before?.metadata?.labels,
  );
  await cluster.admin.delete(USERS, { name: 'bob' });
  await untilGone(cluster, USERS, { name: 'bob' });
  expect(await cluster.admin.get(namespaces, { name: 'bob' })).toBeDefined();
});

test('a new leader writes nothing where nothing differs', async () => {
  await replica.program.stop(15_000);
  const before = writes().length;
  replica = await start('two');
  await replica.whenReady();
  await cluster.admin.create(USERS, user('carol'));
  await untilReady('carol');
  expect(
    writes()
      .slice(before)
      .filter((line) => !line.includes('carol')),
  ).toEqual([]);
});

test('a deleted User goes after its Namespace', async () => {
  await cluster.admin.delete(USERS, { name: 'alice' });
  await untilGone(cluster, USERS, { name: 'alice' });
  expect(await cluster.admin.get(namespaces, { name: 'alice' })).toBeUndefined();
});

describe('a laptop', () => {
  const laptops: Replica[] = [];
  afterAll(async () => {
    for (const laptop of laptops) await laptop.program.stop(15_000);
  });

  const place = { namespace: 'ann', name: 'user' };
  const untilQuota = (cpus: string) =>
    scene.cluster.see<Quota>(
      `the quota is ${cpus}`,
      QUOTAS,
      place,
      ({ spec }) => spec?.hard?.['requests.cpu'] === cpus,
    );

  /** The controller of the example with another default. */
  function changedFolder(cpus: string): string {
    const folder = join(scene.cluster.plane.folder, 'controllers-of-laptop');
    cpSync(scene.folder, folder, { recursive: true });
    const file = join(folder, 'users.ts');
    const source = readFileSync(file, 'utf8');
    writeFileSync(file, source.replace("spec.cpu ?? '2'", `spec.cpu ?? '${cpus}'`));
    return folder;
  }

  test('reconciles while its session lasts, then the leader does again', async () => {
    const { admin, see } = scene.cluster;
    await admin.create(USERS, { metadata: { name: 'ann' }, spec: { mail: 'ann@example.com' } } as KubeObject);
    await see('ann is ready', USERS, { name: 'ann' }, isReady);
    await untilQuota('2');

    const laptop = await startLaptop(scene.cluster, { name: 'eva', handlers: changedFolder('7') });
    laptops.push(laptop);
    await untilQuota('7');
    await admin.patchMerge(QUOTAS, place, { spec: { hard: { 'requests.cpu': '1' } } });
    await untilQuota('7');
    await sleep(2_000);
    await untilQuota('7');
    const metrics = await replica.metrics();
    expect(metrics).toMatch(/^controller_runtime_active_workers\{controller="users"\} 0$/m);

    await laptop.program.stop(15_000);
    await untilQuota('2');
  });
});
