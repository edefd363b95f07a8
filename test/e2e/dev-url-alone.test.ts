// suite: shared-plane, sandbox: long
/** `gatehouse serve --dev-url` in a cluster that contains only Gatehouse's CRDs. */
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';

import { mutatingWebhookConfigurations, validatingWebhookConfigurations } from '../../src/kube/well-known.ts';
import {
  applyExamples,
  createNamespace,
  established,
  startCluster,
  type Cluster,
} from '../support/cluster.ts';
import { untilServersChecked } from '../support/gatehouse-cluster.ts';
import type { Replica } from '../support/gatehouse.ts';
import { forCase, handlerFolder } from '../support/handler-folder.ts';
import { sendConfigMap, startLaptop, untilLaptopSays } from '../support/laptop.ts';
import { eventually, freePort } from '../support/processes.ts';

const handlers = handlerFolder({
  'greeter.ts': forCase('greeter', `validate(object, { deny }) { deny('the laptop refuses'); },`),
});

let cluster: Cluster;
const laptops: Replica[] = [];

beforeAll(async () => {
  cluster = await startCluster();
  await cluster.applyFolder('base/crds');
  for (const kind of ['admissionpolicies', 'restorewindows', 'restoredetectors', 'uniqueclaims'])
    await established(cluster, `${kind}.gatehouse.dev`);
  await createNamespace(cluster, 'shop');
  await applyExamples(cluster);
});

afterEach(async () => {
  for (const laptop of laptops.splice(0)) await laptop.program.stop(15_000);
});

afterAll(() => cluster.stop());

const port = await freePort();

/** Starts a laptop, always with the same user name and URL. */
async function start(): Promise<Replica> {
  const laptop = await startLaptop(cluster, { name: 'eva', port, handlers });
  laptops.push(laptop);
  return laptop;
}

const decides = (laptop: Replica) => untilLaptopSays(laptop, cluster, 'greeter', 'the laptop refuses');

const configurations = () =>
  Promise.all(
    [mutatingWebhookConfigurations, validatingWebhookConfigurations].map((resource) =>
      cluster.admin.get(resource, { name: 'gatehouse' }),
    ),
  );

test('a laptop enforces policies and handlers without a replica, and leaves nothing behind at its end', async () => {
  const laptop = await start();
  await decides(laptop);
  await untilServersChecked(cluster);

  laptop.program.kill('SIGINT');
  expect((await laptop.program.exited).code).toBe(0);
  expect(await configurations()).toEqual([undefined, undefined]);
  await eventually('no webhook is called any more', () => sendConfigMap(cluster, 'greeter'));
});

test('the next run of the command removes what a crash left behind', async () => {
  const first = await start();
  await decides(first);
  first.program.kill('SIGKILL');
  await first.program.exited;
  expect(await configurations()).not.toContain(undefined);

  const second = await start();
  await decides(second);
  await second.program.stop(15_000);
  expect(await configurations()).toEqual([undefined, undefined]);
});
