// suite: shared-plane, sandbox: long
/** The upgrade from one Deployment to two, as in docs/installing.md, under load: no admission fails. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';

import type { KubeObject } from '../../src/json/kube-object.ts';
import { ApiError } from '../../src/kube/api-error.ts';
import { createClient } from '../../src/kube/client.ts';
import { leases, secrets, services } from '../../src/kube/well-known.ts';
import { startBalancer, type Balancer } from '../support/balancer.ts';
import {
  established,
  localService,
  SERVERS,
  startCluster,
  SYSTEM_NAMESPACE,
  type Cluster,
} from '../support/cluster.ts';
import { USERS } from '../support/control-plane-users.ts';
import { createDeployed, type Deployed } from '../support/deployed.ts';
import { enforceExamples } from '../support/gatehouse-cluster.ts';
import { startReplica, type Replica } from '../support/gatehouse.ts';
import { refusedTo } from '../support/grants.ts';
import { createKubectl, HAS_KUBECTL, type Kubectl } from '../support/kubectl.ts';
import { startLoad, type Load } from '../support/load.ts';
import { server } from '../support/objects.ts';
import { eventually } from '../support/processes.ts';

const PAGE = join(import.meta.dirname, '..', '..', 'docs', 'installing.md');
/** What the page tells users to run, without `kubectl`. */
const COMMANDS = [
  ...(/^## From one Deployment to two\n[^]*?^With Helm/m
    .exec(readFileSync(PAGE, 'utf8'))?.[0]
    .matchAll(/^ +kubectl (.+)$/gm) ?? []),
].map(([, command = '']) => command);

let balancer: Balancer;
let cluster: Cluster;
let kubectl: Kubectl;
let deployed: Deployed;
let replicas: readonly Replica[] = [];

/** The API server loses a request on a connection that closes. A drain gives it time to leave most of them. */
const settings = { 'drain-delay': '3s' };

const start = async (name: string, process: 'single' | 'webhook' | 'controllers'): Promise<Replica> => {
  const replica = await startReplica(cluster.plane, {
    ...{ name, servicePort: balancer.port, settings },
    ...(process === 'single' ? { arrangement: process } : { only: process }),
  });
  replicas = [...replicas, replica];
  return replica;
};

beforeAll(async () => {
  if (!HAS_KUBECTL) return;
  balancer = await startBalancer();
  cluster = await startCluster();
  kubectl = createKubectl(cluster.plane);
  deployed = createDeployed(cluster, kubectl, balancer.port);
  await deployed.apply('overlays/single', { isExact: true });
  await established(cluster, 'admissionpolicies.gatehouse.dev');
  const first = await start('before', 'single');
  balancer.setBackends([first.port]);
  await first.whenReady();
  await enforceExamples(cluster);
});

afterAll(async () => {
  if (!HAS_KUBECTL) return;
  kubectl.stop();
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

/** Ends a replica like a rollout: new connections lead to the others, and the API server has left the old ones. */
async function end(leaving: Replica, next: Replica): Promise<void> {
  const before = await reviews(next);
  leaving.program.kill('SIGTERM');
  // A pod that ends leaves the Service at once.
  balancer.setBackends([next.port]);
  expect(await leaving.program.exited).toEqual({ code: 0, signal: null });
  await eventually('the other replica answers alone', async () => (await reviews(next)) > before + 20);
}

/**
 * The Service gets another endpoint. The API server keeps its connections, which all lead to the former ones; how many it has
 * depends on the API server.
 */
async function share(load: Load, replica: Replica, others: readonly Replica[]): Promise<void> {
  balancer.setBackends([...others, replica].map(({ port }) => port));
  const answers = async () => {
    if ((await reviews(replica)) > 0) return true;
    await load.between(() => balancer.cut(2));
    return false;
  };
  await eventually('the new replica answers', answers, { timeoutMs: 60_000, everyMs: 500 });
}

test.skipIf(!HAS_KUBECTL)(
  'no admission fails on the way of docs/installing.md from one Deployment to two, nor when webhook replicas roll',
  async () => {
    const [before] = replicas;
    if (before === undefined) throw new Error('no replica runs');
    const load = startLoad({ perSecond: 20, lanes: 8, request: review });
    let webhook = before;

    const run = async (command: string): Promise<void> => {
      switch (command) {
        case 'apply -k deploy/overlays/from-single': {
          await deployed.apply('overlays/from-single', { isExact: true });
          const [answering, controllers] = await Promise.all([
            start('webhook', 'webhook'),
            start('controllers', 'controllers'),
          ]);
          await Promise.all([answering.whenReady(), controllers.whenReady()]);
          webhook = answering;
          return;
        }
        case '-n gatehouse-system rollout status deployment/$name':
          expect(await holder()).toBe('before'); // it writes what the webhook needs
          await share(load, webhook, [before]);
          return;
        case '-n gatehouse-system delete deployment gatehouse --cascade=foreground':
          await end(before, webhook);
          await eventually('the new controllers lead', async () => (await holder()) === 'controllers');
          return;
        case 'apply -k deploy':
          await deployed.apply('overlays/default', { isExact: true });
          return;
        default:
          await kubectl.says(command);
      }
    };
    for (const command of COMMANDS) await run(command);
    expect(COMMANDS.length).toBe(6);
    await eventually('the former account has no rights', () => isPowerless(USERS.gatehouse));

    const next = await start('next', 'webhook');
    await next.whenReady();
    await share(load, next, [webhook]);
    await end(webhook, next);

    const { sent, seconds, failures } = await load.stop();
    console.log(`${sent} reviews in ${seconds.toFixed(1)} s, ${failures.length} failed`);
    expect(failures).toEqual([]);
    const annotations = { 'gatehouse.dev/serving-cert-secret-name': 'late-tls' };
    await cluster.admin.create(services, localService('shop', 'late', 443, annotations));
    await cluster.see('the certificate', secrets, { namespace: 'shop', name: 'late-tls' }, undefined);
    for (const user of ['gatehouse', 'webhook', 'controllers'] as const)
      expect(refusedTo(cluster.plane.auditLog(), USERS[user].name)).toEqual([]);
  },
);

async function isPowerless({ name, groups }: (typeof USERS)['gatehouse']): Promise<boolean> {
  const rest = cluster.adminRest.impersonate({ user: name, groups: [...groups, 'system:authenticated'] });
  const read = createClient(rest).get(secrets, { namespace: SYSTEM_NAMESPACE, name: 'gatehouse-authority' });
  return await read.then(
    () => false,
    (error: unknown) => error instanceof ApiError && error.code === 403,
  );
}
