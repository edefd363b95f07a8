// suite: shared-plane, sandbox: long
/** `onTargetDelete: Cascade` with a leader that is killed in the middle: `GATEHOUSE_SEED` says how far it gets. */
import { afterAll, beforeAll, expect, test } from 'vitest';

import type { UniqueClaim } from '../../src/api/unique-claim.ts';
import { mapConcurrent } from '../../src/json/map-concurrent.ts';
import { leases } from '../../src/kube/well-known.ts';
import { UNIQUE_CLAIMS } from '../../src/runtime/resources.ts';
import type { Balancer } from '../support/balancer.ts';
import {
  ADMISSION_POLICIES,
  createNamespace,
  DATACENTERS,
  LEASE,
  SERVERS,
  type Cluster,
} from '../support/cluster.ts';
import { seeInForce, startReplicas, untilRefused, installExamples } from '../support/gatehouse-cluster.ts';
import type { Replica } from '../support/gatehouse.ts';
import {
  actionsRole,
  datacenter,
  server,
  serversPolicy,
  type LeaseObject,
  toDatacenter,
} from '../support/objects.ts';
import { eventually } from '../support/processes.ts';

const SEED = Number(process.env.GATEHOUSE_SEED ?? 1);
const SERVERS_OF_TARGET = 200;
/** The leader is killed when at most so many objects are left: between a tenth and nine tenths. */
const LEFT_AT_KILL = Math.round(SERVERS_OF_TARGET * (0.1 + ((SEED * 37) % 81) / 100));

let balancer: Balancer;
let cluster: Cluster;
let replicas: readonly Replica[] = [];

beforeAll(async () => {
  const settings = { 'unique-settle': '5s' };
  ({ balancer, cluster, replicas } = await startReplicas(['one', 'two'], { settings }));
  await installExamples(cluster);
  await cluster.admin.delete(ADMISSION_POLICIES, { name: 'servers' });
  await cluster.apply(
    actionsRole('servers', 'infra.example.com', ['servers']),
    serversPolicy('keys', { validate: { references: [{ ...toDatacenter, onTargetDelete: 'Cascade' }] } }),
  );
  await seeInForce(cluster, 'keys');
  await createNamespace(cluster, 'shop');
  await untilRefused('a Server without its datacenter', 'policy keys', () =>
    cluster.admin.create(SERVERS, server('shop', 'probe', 'nowhere'), { dryRun: true }),
  );
});

afterAll(() => cluster.stop());

const names = async () =>
  (await cluster.admin.listAll(SERVERS, { metadataOnly: true })).items.map(
    ({ metadata }) => metadata?.name ?? '',
  );

test(`the next leader finishes a cascade: GATEHOUSE_SEED=${SEED}`, async () => {
  for (const name of ['fra1', 'fra2']) await cluster.admin.create(DATACENTERS, datacenter(name));
  const all = Array.from({ length: SERVERS_OF_TARGET }, (_, n) => `s${n}`);
  await mapConcurrent(all, 10, (name) => cluster.admin.create(SERVERS, server('shop', name, 'fra1')));
  await cluster.admin.create(SERVERS, server('shop', 'other', 'fra2'));
  const lease = await cluster.admin.get<LeaseObject>(leases, LEASE);
  const leader = replicas.find(({ name }) => name === lease?.spec?.holderIdentity);
  if (leader === undefined) throw new Error(`no replica is ${lease?.spec?.holderIdentity ?? 'the leader'}`);

  await eventually('a replica admits that the target is deleted', () =>
    cluster.admin.delete(DATACENTERS, { name: 'fra1' }),
  );
  await eventually('the leader is in the middle', async () => (await names()).length <= LEFT_AT_KILL, {
    timeoutMs: 60_000,
    everyMs: 5,
  });
  leader.program.kill('SIGKILL');
  await leader.program.exited;
  balancer.setBackends(replicas.filter((one) => one !== leader).map(({ port }) => port));
  expect((await names()).length, 'objects that the killed leader has left').toBeGreaterThan(1);

  await eventually('the next leader deletes the rest', async () => (await names()).join() === 'other', {
    timeoutMs: 90_000,
  });
  await eventually(
    'the record is gone',
    async () => (await cluster.admin.listAll<UniqueClaim>(UNIQUE_CLAIMS)).items.length === 0,
  );
  expect(await names()).toEqual(['other']);
});
