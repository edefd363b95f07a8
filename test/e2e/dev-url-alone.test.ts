/** `gatehouse serve --dev-url` where there is nothing of Gatehouse but its kinds. */
import { rmSync } from 'node:fs';
import { afterAll, beforeAll, expect, test } from 'vitest';

import {
  configMaps,
  mutatingWebhookConfigurations,
  validatingWebhookConfigurations,
} from '../../src/kube/well-known.ts';
import {
  applyExamples,
  createNamespace,
  established,
  SERVERS,
  startCluster,
  type Cluster,
} from '../support/cluster.ts';
import { untilRefused } from '../support/gatehouse-cluster.ts';
import { startReplica, type Replica } from '../support/gatehouse.ts';
import { forCase, writeHandlers } from '../support/handler-folder.ts';
import { server } from '../support/objects.ts';
import { eventually, freePort, tail } from '../support/processes.ts';

const handlers = writeHandlers({
  'greeter.ts': forCase('greeter', `validate(object, { deny }) { deny('the laptop says no'); },`),
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

afterAll(async () => {
  for (const laptop of laptops) await laptop.program.stop(15_000);
  await cluster.stop();
  rmSync(handlers, { recursive: true, force: true });
});

const port = await freePort();

async function startLaptop(): Promise<Replica> {
  const laptop = await startReplica(cluster.plane, {
    name: 'eva',
    port,
    settings: {
      kubeconfig: cluster.plane.kubeconfig('admin'),
      'dev-url': `https://127.0.0.1:${port}`,
      handlers,
    },
  });
  laptops.push(laptop);
  return laptop;
}

const create = () =>
  cluster.admin.create(
    configMaps,
    { metadata: { namespace: 'shop', name: 'probe', labels: { case: 'greeter' } } },
    { dryRun: true },
  );

const decides = (laptop: Replica) =>
  eventually(
    'the laptop decides',
    async () => {
      if (!laptop.program.isRunning()) throw new Error(tail(laptop.program.logFile));
      await untilRefused('a ConfigMap', 'the laptop says no', create);
      return true as const;
    },
    { timeoutMs: 60_000 },
  );

const configurations = () =>
  Promise.all(
    [mutatingWebhookConfigurations, validatingWebhookConfigurations].map((resource) =>
      cluster.admin.get(resource, { name: 'gatehouse' }),
    ),
  );

test('a laptop alone enforces policies and handlers, and at the end nothing is left', async () => {
  const laptop = await startLaptop();
  await decides(laptop);
  await untilRefused('a Server without its datacenter', 'spec.datacenter', () =>
    cluster.admin.create(SERVERS, server('shop', 'probe', 'nowhere'), { dryRun: true }),
  );

  laptop.program.kill('SIGINT');
  expect((await laptop.program.exited).code).toBe(0);
  expect(await configurations()).toEqual([undefined, undefined]);
  await eventually('nobody is asked any more', create);
});

test('what a crash leaves behind is gone when the command has run again', async () => {
  const first = await startLaptop();
  await decides(first);
  first.program.kill('SIGKILL');
  await first.program.exited;
  expect(await configurations()).not.toContain(undefined);

  const second = await startLaptop();
  await decides(second);
  await second.program.stop(15_000);
  expect(await configurations()).toEqual([undefined, undefined]);
});
