// suite: own-plane, sandbox: no (it is a single process), slow
/** A control plane with two API servers on one etcd, behind a load balancer, as in clusters with several control-plane nodes. */
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, expect, test } from 'vitest';

import type { AdmissionPolicy } from '../../src/api/admission-policy.ts';
import { createClient, type KubeClient } from '../../src/kube/client.ts';
import { loadConnection, type Connection } from '../../src/kube/connection.ts';
import { createRest } from '../../src/kube/rest.ts';
import { configMaps } from '../../src/kube/well-known.ts';
import { startBalancer, type Balancer } from '../support/balancer.ts';
import {
  ADMISSION_POLICIES,
  createNamespace,
  DATACENTERS,
  SERVERS,
  startClusterFor,
  type Cluster,
} from '../support/cluster.ts';
import type { ControlPlaneProcesses } from '../support/control-plane.ts';
import { kubeconfigsThrough } from '../support/control-plane-users.ts';
import { installExamples, outcomeOf, seeInForce } from '../support/gatehouse-cluster.ts';
import { startReplica } from '../support/gatehouse.ts';
import {
  admissionPolicy,
  configMap,
  configMapsWith,
  datacenter,
  server,
  serversPolicy,
  toDatacenter,
} from '../support/objects.ts';
import { eventually, freePort } from '../support/processes.ts';

const PAIRS = 12;

let balancer: Balancer;
let cluster: Cluster;
let processes: ControlPlaneProcesses;
let second: Awaited<ReturnType<ControlPlaneProcesses['launchAnother']>>;
let connection: Connection;
/** Clients of one API server each. */
let clients: readonly [KubeClient, KubeClient];

/** Like an API server of an older release, which does not know the kinds of compiled policies. */
const WITHOUT_POLICIES = '--disable-admission-plugins=ValidatingAdmissionPolicy';

const through = (name: string, port: number) => {
  const { plane } = cluster;
  return kubeconfigsThrough(plane, name, { server: `https://127.0.0.1:${port}`, ca: plane.ca });
};

async function launchSecond(...flags: readonly string[]): Promise<void> {
  second = await processes.launchAnother(flags);
  connection = await loadConnection({ kubeconfig: through('second', second.port)('admin') });
  clients = [cluster.admin, createClient(createRest({ connection, userAgent: 'gatehouse-test' }))];
  balancer.setBackends([processes.apiServerPort, second.port]);
}

async function stopSecond(): Promise<void> {
  await connection.close();
  await second.stop();
}

beforeAll(async () => {
  balancer = await startBalancer();
  const port = await freePort();
  cluster = await startClusterFor(port, { own: true });
  if (cluster.plane.processes === undefined) throw new Error('the test needs its own control plane');
  processes = cluster.plane.processes;
  await cluster.applyFolder('components/compile-policies');
  await createNamespace(cluster, 'shop');
  await launchSecond(WITHOUT_POLICIES);
  const settings = { 'compile-policies': 'true' };
  const plane = { ...cluster.plane, kubeconfig: through('balancer', balancer.port) };
  const replica = await startReplica(plane, { name: 'one', port, settings });
  await replica.whenReady();
  await installExamples(cluster);
});

afterAll(async () => {
  await stopSecond();
  await cluster.stop();
  await balancer.stop();
});

test('the webhook keeps a compiled policy until both API servers enforce it', async () => {
  const rules = [{ name: 'password', expression: '!("password" in object.data)' }];
  await cluster.apply(
    admissionPolicy('both', { match: configMapsWith({ suite: 'both' }), validate: { rules } }),
  );
  await seeInForce(cluster, 'both');
  const forbidden = configMap('forbidden', { password: 'x' }, { labels: { suite: 'both' } });
  const attempts = () =>
    Promise.all(clients.map((one) => outcomeOf(one.create(configMaps, forbidden, { dryRun: true }))));
  const compiled = async () =>
    (await cluster.admin.get<AdmissionPolicy>(ADMISSION_POLICIES, { name: 'both' }))?.status?.compiled;
  // The first API server enforces it after a second, and confirming it takes three more.
  for (let n = 0; n < 32; n++) {
    expect(await attempts()).not.toContain('allowed');
    await sleep(250);
  }
  expect(await compiled()).toBe('0/1');
  await stopSecond();
  await launchSecond();
  await eventually('the API servers enforce it', async () => (await compiled()) === '1/1');
  expect(await attempts()).toEqual([
    expect.stringContaining('ValidatingAdmissionPolicy'),
    expect.stringContaining('ValidatingAdmissionPolicy'),
  ]);
});

test('of two objects with the same unique value, one is stored, although each goes to another API server', async () => {
  const unique = [{ name: 'code', paths: ['data.code'] }];
  const match = configMapsWith({ suite: 'codes' });
  await cluster.apply(admissionPolicy('codes', { match, validate: { unique } }));
  await seeInForce(cluster, 'codes');
  await sleep(2_000); // both API servers have read the webhook configurations
  for (let n = 0; n < PAIRS; n++) {
    const code = { code: `code-${n}` };
    const created = clients.map((one, index) =>
      outcomeOf(
        one.create(configMaps, configMap(`code-${n}-${index}`, code, { labels: { suite: 'codes' } })),
      ),
    );
    expect((await Promise.all(created)).filter((outcome) => outcome === 'allowed')).toHaveLength(1);
  }
});

test('a serializable reference never dangles, although its target is deleted through another API server', async () => {
  const reference = { ...toDatacenter, onTargetDelete: 'Restrict', guarantee: 'Serializable' };
  await cluster.apply(serversPolicy('keys', { validate: { references: [reference] } }));
  await seeInForce(cluster, 'keys');
  await sleep(2_000); // as above
  for (let n = 0; n < PAIRS; n++) {
    const [one, other] = clients;
    const [writer, deleter] = n % 2 === 0 ? [one, other] : [other, one];
    const name = `target-${n}`;
    await writer.create(DATACENTERS, datacenter(name));
    await Promise.all([
      outcomeOf(writer.create(SERVERS, server('shop', name, name))),
      sleep(n).then(() => outcomeOf(deleter.delete(DATACENTERS, { name }))),
    ]);
    const stored = await cluster.admin.get(SERVERS, { namespace: 'shop', name });
    const target = await cluster.admin.get(DATACENTERS, { name });
    expect(stored !== undefined && target === undefined, name).toBe(false);
  }
});
