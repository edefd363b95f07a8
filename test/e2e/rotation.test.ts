// suite: shared-plane, sandbox: long, slow
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, expect, test } from 'vitest';

import { secrets } from '../../src/kube/well-known.ts';
import { startBalancer, type Balancer } from '../support/balancer.ts';
import { SERVERS, startClusterFor, type Cluster } from '../support/cluster.ts';
import { enforceExamples } from '../support/gatehouse-cluster.ts';
import { startReplica, type Replica } from '../support/gatehouse.ts';
import { startLoad } from '../support/load.ts';
import { server, text, type SecretObject } from '../support/objects.ts';
import { SERVING } from '../support/own-objects.ts';
import { eventually } from '../support/processes.ts';
import { presentedSerial } from '../support/tls.ts';

let balancer: Balancer;
let cluster: Cluster;
let replica: Replica;

const RATE = 50;

beforeAll(async () => {
  balancer = await startBalancer();
  cluster = await startClusterFor(balancer.port);
  replica = await startReplica(cluster.plane, {
    name: 'one',
    arrangement: 'both',
    servicePort: balancer.port,
    // The API server loses a request on a connection that closes. A drain gives it time to use and leave most of them.
    settings: { 'drain-delay': '3s' },
  });
  balancer.setBackends([replica.port]);
  await replica.whenReady();
  await enforceExamples(cluster);
});

afterAll(async () => {
  await replica.program.stop(30_000);
  await cluster.stop();
  await balancer.stop();
});

/** Sends a request through kube-apiserver, which calls both webhooks: a failed call fails the request. */
const admit = (n: number) =>
  cluster.admin.create(SERVERS, server('shop', `load-${n}`, 'fra1'), { dryRun: true });

test('no request fails during a rotation of the certificate of the listener under 50 requests a second', async () => {
  const serials = new Set([await presentedSerial(replica.port)]);
  const load = startLoad({ perSecond: RATE, request: admit });
  for (let rotation = 1; rotation <= 5; rotation++) {
    await sleep(1_000);
    const before = await cluster.admin.get<SecretObject>(secrets, SERVING);
    await cluster.admin.delete(secrets, SERVING);
    await cluster.see<SecretObject>(
      'a new certificate',
      secrets,
      SERVING,
      (secret) => before !== undefined && text(secret, 'tls.crt') !== text(before, 'tls.crt'),
    );
    await eventually('the replica presents it', async () => {
      serials.add(await presentedSerial(replica.port));
      return serials.size === rotation + 1;
    });
  }
  await sleep(500);
  const { sent, failures } = await load.stop();
  console.log(`${sent} requests, ${failures.length} failed, ${serials.size} certificates`);
  expect(failures).toEqual([]);
  expect(sent).toBeGreaterThan(5 * RATE);
});

test('no request fails while one replica replaces another under load', async () => {
  const load = startLoad({ perSecond: RATE, request: admit });
  await sleep(500);
  const next = await startReplica(cluster.plane, {
    name: 'two',
    arrangement: 'both',
    servicePort: balancer.port,
  });
  await next.whenReady();
  balancer.setBackends([replica.port, next.port]);
  await sleep(1_000);

  const leaving = replica;
  leaving.program.kill('SIGTERM');
  await eventually('it is not ready', async () => !(await leaving.readyz().catch(() => ({ ok: false }))).ok);
  balancer.setBackends([next.port]); // the endpoints controller does this when readiness fails
  const { code } = await leaving.program.exited;
  expect(code).toBe(0);
  replica = next;
  await sleep(500);

  const { sent, failures } = await load.stop();
  console.log(`${sent} requests, ${failures.length} failed, while one replica replaced the other`);
  expect(failures).toEqual([]);
});
