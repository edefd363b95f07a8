// suite: shared-plane, sandbox: long
import { afterAll, beforeAll, expect, test } from 'vitest';

import { leases, secrets } from '../../src/kube/well-known.ts';
import { type Balancer } from '../support/balancer.ts';
import {
  askForCertificate,
  createNamespace,
  LEASE,
  SYSTEM_NAMESPACE,
  type Cluster,
} from '../support/cluster.ts';
import { countByTarget, writesOf } from '../support/gatehouse-audit.ts';
import { isLeading, startReplica, type Replica } from '../support/gatehouse.ts';
import { eventually } from '../support/processes.ts';
import { startReplicas } from '../support/gatehouse-cluster.ts';
import { type LeaseObject, inShop } from '../support/objects.ts';

let balancer: Balancer;
let cluster: Cluster;
let replicas: readonly Replica[] = [];

beforeAll(async () => {
  ({ balancer, cluster, replicas } = await startReplicas(['one', 'two'], { arrangement: 'both' }));
  await createNamespace(cluster, 'shop');
});

afterAll(() => cluster.stop());

async function leaderAmong(candidates: readonly Replica[]): Promise<Replica | undefined> {
  const leading = await Promise.all(candidates.map(isLeading));
  expect(leading.filter(Boolean).length, 'leaders at a time').toBeLessThanOrEqual(1);
  return candidates.find((_replica, index) => leading[index]);
}

const askForCert = (name: string) => askForCertificate(cluster, 'shop', name);

const issued = (name: string, timeoutMs?: number) =>
  cluster.see(`the certificate of ${name}`, secrets, inShop(`${name}-tls`), undefined, timeoutMs);

test('after kill -9 of the leader, the other replica leads, and nothing is written twice', async () => {
  await askForCert('before');
  await issued('before');
  const leader = await leaderAmong(replicas);
  if (leader === undefined) throw new Error('no replica leads');
  const heir = replicas.find((replica) => replica !== leader);
  if (heir === undefined) throw new Error('there is one other replica');

  leader.program.kill('SIGKILL');
  await askForCert('between'); // no replica is connected to see this change
  await eventually('the other replica leads', () => isLeading(heir));
  await issued('between', 5_000);

  // The leader adds the state that it shares with webhook processes to the Secret with its own certificate.
  const shared = `secrets ${SYSTEM_NAMESPACE}/gatehouse-serving`;
  const twice = Object.entries(countByTarget(writesOf(cluster.plane))).filter(
    ([object, count]) => count > 1 && object !== shared,
  );
  expect(twice).toEqual([]);
  expect(countByTarget(writesOf(cluster.plane, heir.name))).toEqual({ 'secrets shop/between-tls': 1 });
});

test('a leader that was frozen while another replica took over writes nothing more', async () => {
  const frozen = await leaderAmong(replicas.filter(({ program }) => program.isRunning()));
  if (frozen === undefined) throw new Error('no replica leads');
  const next = await startReplica(cluster.plane, {
    name: 'three',
    arrangement: 'both' as const,
    servicePort: balancer.port,
    settings: { 'drain-delay': '8s' },
  });
  replicas = [...replicas, next];
  await next.whenReady();

  frozen.program.kill('SIGSTOP');
  await eventually('the next leader leads', () => isLeading(next));
  await askForCert('after-the-freeze');
  await issued('after-the-freeze', 5_000);
  const before = writesOf(cluster.plane, frozen.name).length;
  frozen.program.kill('SIGCONT');
  await eventually('the frozen leader knows', async () => !(await isLeading(frozen)));

  expect(writesOf(cluster.plane, frozen.name)).toHaveLength(before);
  const lease = await cluster.admin.get<LeaseObject>(leases, LEASE);
  expect(lease?.spec?.holderIdentity).toBe('three');
});

test('on SIGTERM, a leader that still has Events to write hands over before it drains, and then exits', async () => {
  const running = replicas.filter(({ program }) => program.isRunning());
  const leader = await leaderAmong(running);
  const heir = running.find((replica) => replica !== leader);
  if (leader === undefined || heir === undefined) throw new Error('expected a leader and another replica');
  // One Event each: the replica writes 50 immediately, and then five a second.
  const names = Array.from({ length: 150 }, (_, index) => `many-${index}`);
  await Promise.all(names.map(askForCert));
  await Promise.all(names.map((name) => issued(name, 60_000)));
  leader.program.kill('SIGTERM');
  await eventually('the other replica leads', () => isLeading(heir), { timeoutMs: 60_000, everyMs: 10 });
  expect(leader.program.isRunning(), 'the former leader still serves').toBe(true);
  const written = writesOf(cluster.plane, leader.name).length;
  expect(await leader.program.exited).toEqual({ code: 0, signal: null });
  expect(writesOf(cluster.plane, leader.name)).toHaveLength(written);
});
