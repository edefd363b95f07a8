// suite: shared-plane, sandbox: long, slow, nightly
/**
 * The controllers of the examples die at each of their writes, and have two leaders. The end state is always the same, and the
 * cloud never creates a machine twice. test/integration/controller-crashes.test.ts tries random schedules.
 */
import { afterAll, beforeAll, expect, test } from 'vitest';

import type { KubeObject } from '../../src/json/kube-object.ts';
import { leases, namespaces } from '../../src/kube/well-known.ts';
import type { Write } from '../support/api-proxy-exchange.ts';
import { ROLE_BINDINGS, SYSTEM_NAMESPACE } from '../support/cluster.ts';
import { startApiProxy, type ApiProxy, type Fault } from '../support/api-proxy.ts';
import { startReplica, type Replica } from '../support/gatehouse.ts';
import { isNightly } from '../support/nightly.ts';
import { ownLease } from '../support/own-lease.ts';
import { eventually, freePort } from '../support/processes.ts';
import {
  isReady,
  MACHINES,
  QUOTAS,
  startControllerScene,
  USERS,
  type ControllerScene,
  type Reconciled,
} from '../support/user-controllers-scene.ts';

const WITHIN_MS = 60_000;
const QUICK = { 'lease-duration': '3s', 'renew-deadline': '2s', 'retry-period': '500ms' } as const;

let port: number;
let scene: ControllerScene;
let proxy: ApiProxy;
let replica: Replica;
let started = 0;
let lives = 0;

beforeAll(async () => {
  port = await freePort();
  scene = await startControllerScene(port, ['users', 'machines']);
  proxy = await startApiProxy(scene.cluster.plane, 'crash');
  replica = await start();
});

afterAll(async () => {
  await replica.program.stop(15_000);
  await proxy.stop();
  await scene.stop();
});

async function start(through = proxy, name = `replica-${(started += 1)}`): Promise<Replica> {
  const settings = { kubeconfig: through.kubeconfig('gatehouse'), handlers: scene.folder, ...QUICK };
  const one = await startReplica(scene.cluster.plane, { name, servicePort: port, settings, env: scene.env });
  await one.whenReady(30_000);
  return one;
}

async function replace(): Promise<void> {
  replica.program.kill('SIGKILL');
  await replica.program.exited;
  // Delete the lease: other tests measure how long a standby waits for a dead leader.
  await scene.cluster.admin.delete(leases, { namespace: SYSTEM_NAMESPACE, name: 'gatehouse' });
  replica = await start();
}

const placeOf = (name: string) => ({ namespace: 'default', name });
const see = (name: string, of: 'User' | 'Machine') =>
  of === 'User'
    ? scene.cluster.see<Reconciled>(`User ${name} is ready`, USERS, { name }, isReady, WITHIN_MS)
    : scene.cluster.see<Reconciled>(`Machine ${name} is ready`, MACHINES, placeOf(name), isReady, WITHIN_MS);

/** Creates, changes and deletes a User and a Machine, and checks each end state. */
async function live(name: string): Promise<void> {
  const { admin } = scene.cluster;
  await Promise.all([
    admin.create(USERS, { metadata: { name }, spec: { mail: `${name}@example.com` } } as KubeObject),
    admin.create(MACHINES, { metadata: placeOf(name), spec: { size: 'small' } } as KubeObject),
  ]);
  await Promise.all([see(name, 'User'), see(name, 'Machine')]);
  await Promise.all([
    admin.patchMerge(USERS, { name }, { spec: { cpu: '4' } }),
    admin.patchMerge(MACHINES, placeOf(name), { spec: { size: 'large' } }),
  ]);
  await expectEndState(name);
  await Promise.all([admin.delete(USERS, { name }), admin.delete(MACHINES, placeOf(name))]);
  await expectGone(name);
}

async function expectEndState(name: string): Promise<void> {
  const { admin } = scene.cluster;
  const [, machine] = await Promise.all([see(name, 'User'), see(name, 'Machine')]);
  const place = { namespace: name, name: 'user' };
  expect(await admin.get(QUOTAS, place)).toMatchObject({ spec: { hard: { 'requests.cpu': '4' } } });
  expect(await admin.get(ROLE_BINDINGS, place)).toBeDefined();
  expect(machine.status).not.toHaveProperty('progress');
  expect(inCloud(name)).toMatchObject([{ id: machine.status?.machineId, size: 'large' }]);
}

async function expectGone(name: string): Promise<void> {
  const { admin } = scene.cluster;
  await eventually(
    `${name} is gone`,
    async () =>
      (await admin.get(USERS, { name })) === undefined &&
      (await admin.get(MACHINES, placeOf(name))) === undefined &&
      (await admin.get(namespaces, { name })) === undefined,
    { timeoutMs: WITHIN_MS },
  );
  expect(inCloud(name)).toEqual([]);
}

const inCloud = (name: string) =>
  scene.cloud.machines().filter((machine) => machine.name === `default/${name}`);

/** `live` under a fault; the cloud creates exactly one machine. */
async function liveThrough(
  during: (name: string) => Promise<unknown> = () => Promise.resolve(),
): Promise<void> {
  const name = `life-${(lives += 1)}`;
  const before = scene.cloud.created();
  await Promise.all([live(name), during(name)]);
  expect(scene.cloud.created() - before).toBe(1);
}

/** `PATCH users/status`: without the name. Writes on behalf of another object have none. */
function nameOfWrite({ method, target }: Write, name: string): string | undefined {
  const [resource = '', key = ''] = target.split(' ');
  return key === name || key.startsWith(`${name}/`) || key.endsWith(`/${name}`)
    ? `${method} ${resource}`
    : undefined;
}

const WRITES = [
  'DELETE namespaces 1',
  'PATCH machines 1',
  'PATCH machines 2',
  'PATCH machines/status 1',
  'PATCH machines/status 2',
  'PATCH machines/status 3',
  'PATCH namespaces 1',
  'PATCH namespaces 2',
  'PATCH resourcequotas 1',
  'PATCH resourcequotas 2',
  'PATCH resourcequotas 3',
  'PATCH rolebindings 1',
  'PATCH rolebindings 2',
  'PATCH users 1',
  'PATCH users 2',
  'PATCH users/status 1',
  'PATCH users/status 2',
  'PATCH users/status 3',
];

/** Calls `next` with each write for this name, numbered. */
function numbered(name: string, next: (write: string) => void): () => void {
  const counts = new Map<string, number>();
  return proxy.onWrite((write) => {
    const what = nameOfWrite(write, name);
    if (what === undefined) return;
    const count = (counts.get(what) ?? 0) + 1;
    counts.set(what, count);
    next(`${what} ${count}`);
  });
}

test('a life makes these writes', async () => {
  const writes: string[] = [];
  let stop: () => void = () => undefined;
  await liveThrough((name) => {
    stop = numbered(name, (write) => writes.push(write));
    return Promise.resolve();
  });
  stop();
  console.log(writes.join('\n'));
  expect(writes.toSorted()).toEqual(WRITES.toSorted());
});

const KILLS = WRITES.flatMap((write) => [[write, 'before'] as const, [write, 'after'] as const]);
const CHOSEN = KILLS.filter((_kill, index) => isNightly || index % 10 === 0);
if (!isNightly)
  console.log(`${CHOSEN.length} of ${KILLS.length} crash points; npm run test:nightly tests all`);

test.each(CHOSEN)(
  'the leader is killed with "%s", %s the API server carries it out',
  async (wanted, when) => {
    await liveThrough(async (name) => {
      let current = '';
      const stop = numbered(name, (write) => (current = write));
      const fault: Fault = { kind: 'hold', applied: when === 'after' };
      const held = proxy.intercept(
        (write) => nameOfWrite(write, name) !== undefined && current === wanted,
        fault,
      );
      await eventually(`the write ${wanted}`, held.isMet, { timeoutMs: WITHIN_MS });
      stop();
      await replace();
    });
  },
);

test('two leaders agree, although each sees the writes of the other late', async () => {
  await replica.program.stop(15_000);
  const proxies = await Promise.all(
    ['left', 'right'].map((name) => startApiProxy(scene.cluster.plane, name, ownLease())),
  );
  for (const one of proxies) one.delayWrites(() => Math.random() * 60);
  const leaders = await Promise.all(proxies.map((one, index) => start(one, `leader-${index}`)));
  const before = scene.cloud.created();
  const names = Array.from({ length: 10 }, (_, index) => `both-${index}`);
  await Promise.all(names.map(live));
  expect(scene.cloud.created() - before).toBe(names.length);
  await Promise.all(leaders.map(({ program }) => program.stop(15_000)));
  await Promise.all(proxies.map((one) => one.stop()));
  replica = await start();
});
