// suite: shared-plane, sandbox: long
/** A laptop runs a controller of the cluster, whose leader pauses its own meanwhile. */
import { cpSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

import { afterAll, beforeAll, expect, test } from 'vitest';

import type { KubeObject } from '../../src/json/kube-object.ts';
import { startReplica, type Replica } from '../support/gatehouse.ts';
import { startLaptop } from '../support/laptop.ts';
import { freePort } from '../support/processes.ts';
import {
  isReady,
  QUOTAS,
  startControllerScene,
  USERS,
  type ControllerScene,
} from '../support/user-controllers-scene.ts';

type Quota = KubeObject & { readonly spec?: { readonly hard?: Readonly<Record<string, string>> } };

let scene: ControllerScene;
let replica: Replica;
const laptops: Replica[] = [];

beforeAll(async () => {
  const port = await freePort();
  scene = await startControllerScene(port, ['users']);
  replica = await startReplica(scene.cluster.plane, {
    name: 'one',
    port,
    settings: { handlers: scene.folder },
  });
  await replica.whenReady();
});
afterAll(async () => {
  for (const one of [...laptops, replica]) await one.program.stop(15_000);
  await scene.stop();
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

test('the laptop reconciles while its session lasts, then the leader does again', async () => {
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
