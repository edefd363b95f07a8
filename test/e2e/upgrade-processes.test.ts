// suite: shared-plane, sandbox: long
/** The upgrade from one Deployment to two, as in docs/upgrading.md, under load: no admission fails. */
import { afterAll, beforeAll, expect, test } from 'vitest';

import type { KubeObject } from '../../src/json/kube-object.ts';
import { leases, secrets, services } from '../../src/kube/well-known.ts';
import { startBalancer, type Balancer } from '../support/balancer.ts';
import {
  localService,
  SERVERS,
  startClusterFor,
  SYSTEM_NAMESPACE,
  type Cluster,
} from '../support/cluster.ts';
import { enforceExamples } from '../support/gatehouse-cluster.ts';
import { startReplica, type Replica } from '../support/gatehouse.ts';
import { startLoad } from '../support/load.ts';
import { server } from '../support/objects.ts';
import { eventually } from '../support/processes.ts';

let balancer: Balancer;
let cluster: Cluster;
let replicas: readonly Replica[] = [];

/** The API server loses a request on a connection that closes. A drain gives it time to leave most of them. */
const settings = { 'drain-delay': '3s' };

const start = async (name: string, arrangement: 'single' | 'split'): Promise<Replica> => {
  const servicePort = balancer.port;
  const replica = await startReplica(cluster.plane, { name, arrangement, servicePort, settings });
  replicas = [...replicas, replica];
  return replica;
};

beforeAll(async () => {
  balancer = await startBalancer();
  cluster = await startClusterFor(balancer.port, { controllers: ['clusterrole-aggregation'] });
  const first = await start('before', 'single');
  balancer.setBackends([first.port]);
  await first.whenReady();
  await enforceExamples(cluster);
});

afterAll(async () => {
  await Promise.all(replicas.map(({ program }) => program.stop(15_000)));
  await cluster.stop();
  await balancer.stop();
});

const reviews = async (replica: Replica): Promise<number> =>
  [...(await replica.metrics()).matchAll(/^gatehouse_admission_duration_seconds_count\{.*\} (\d+)$/gm)]
    .map(([, count]) => Number(count))
    .reduce((sum, count) => sum + count, 0);

const holder = async (): Promise<string | undefined> => {
  const ref = { namespace: SYSTEM_NAMESPACE, name: 'gatehouse' };
  type Lease = KubeObject & { readonly spec: { readonly holderIdentity: string } };
  return (await cluster.admin.get<Lease>(leases, ref))?.spec.holderIdentity;
};

/** Every second object names a Datacenter that does not exist: it must be refused with the message of the policy. */
async function review(n: number): Promise<void> {
  const isAllowed = n % 2 === 0;
  const object = server('shop', `load-${n}`, isAllowed ? 'fra1' : 'nowhere');
  const answer = await cluster.admin.create(SERVERS, object, { dryRun: true }).then(
    () => 'stored',
    (error: unknown) => String(error),
  );
  if (isAllowed ? answer !== 'stored' : !answer.includes('nowhere')) throw new Error(`${n}: ${answer}`);
}

test('no admission fails while two Deployments take over from one, and the new leader issues certificates', async () => {
  const [before] = replicas;
  if (before === undefined) throw new Error('no replica runs');
  const load = startLoad({ perSecond: 40, lanes: 8, request: review });

  // Step 1: the new Deployments start next to the former one, whose leader writes what the webhook needs.
  const after = await start('after', 'split');
  await after.whenReady();
  expect(await holder()).toBe('before');
  // Step 2: both serve.
  balancer.setBackends([before.port, after.port]);
  // The API server keeps its connections, which all lead to the former one.
  await load.between(() => balancer.cut(2));
  await eventually('the new replica answers', async () => (await reviews(after)) > 0, { timeoutMs: 30_000 });
  // Step 3: the former Deployment ends. A pod that ends leaves the Service at once.
  before.program.kill('SIGTERM');
  balancer.setBackends([after.port]);
  expect(await before.program.exited).toEqual({ code: 0, signal: null });
  await eventually('the new controllers lead', async () => (await holder()) === 'after', {
    timeoutMs: 30_000,
  });
  const answered = await reviews(after);
  await eventually('the new replica answers alone', async () => (await reviews(after)) > answered + 20);

  const { sent, seconds, failures } = await load.stop();
  console.log(`${sent} reviews in ${seconds.toFixed(1)} s, ${failures.length} failed`);
  expect(failures).toEqual([]);
  const annotations = { 'gatehouse.dev/serving-cert-secret-name': 'late-tls' };
  await cluster.admin.create(services, localService('shop', 'late', 443, annotations));
  await cluster.see('the certificate', secrets, { namespace: 'shop', name: 'late-tls' }, undefined, 30_000);
});
