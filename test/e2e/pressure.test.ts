// suite: shared-plane, sandbox: long
/** More concurrent reviews than a replica accepts: the API server retries, and no user's write fails because of it. */
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';

import { startApiProxy, type ApiProxy } from '../support/api-proxy.ts';
import {
  applyExamples,
  createNamespace,
  DATACENTERS,
  SERVERS,
  startClusterFor,
  type Cluster,
} from '../support/cluster.ts';
import { seeInForce, untilRefused, untilReviewed } from '../support/gatehouse-cluster.ts';
import { startReplica, type Replica } from '../support/gatehouse.ts';
import { admissionPolicy, datacenter, server } from '../support/objects.ts';
import { eventually, freePort } from '../support/processes.ts';

/** The replica's limit; one webhook may use half of it. */
const AT_A_TIME = 4;

let cluster: Cluster;
let proxy: ApiProxy;
let replica: Replica;

/** The proxy holds reads of Datacenters with such names until the test releases them. */
const SLOW = '/datacenters/slow';
let letThrough = Promise.withResolvers<undefined>();

beforeAll(async () => {
  const port = await freePort();
  cluster = await startClusterFor(port);
  proxy = await startApiProxy(cluster.plane, 'one', async (method, path) => {
    if (method === 'GET' && path.includes(SLOW)) await letThrough.promise;
    return undefined;
  });
  const { folder } = cluster.plane;
  replica = await startReplica(
    { kubeconfig: proxy.kubeconfig, folder },
    { name: 'one', port, settings: { 'max-admission-reviews': String(AT_A_TIME) } },
  );
  await replica.whenReady();
  await untilReviewed(cluster);
  await applyExamples(cluster);
  await cluster.apply(patient, others);
  for (const { metadata } of [patient, others]) await seeInForce(cluster, metadata.name);
  await cluster.admin.create(DATACENTERS, datacenter('fra1'));
  await createNamespace(cluster, 'shop');
  await untilRefused('a Server without its datacenter', 'spec.datacenter', () =>
    cluster.admin.create(SERVERS, server('shop', 'probe', 'nowhere'), { dryRun: true }),
  );
});

afterEach(() => {
  letThrough.resolve(undefined);
  letThrough = Promise.withResolvers();
});

afterAll(async () => {
  await replica.program.stop(15_000);
  await proxy.stop();
  await cluster.stop();
});

/** Its timeout is the maximum that the API server allows. */
const patient = admissionPolicy('servers', {
  match: { apiGroups: ['infra.example.com'], apiVersions: ['v1'], resources: ['servers'] },
  timeoutSeconds: 30,
  defaults: [{ path: 'spec.tier', value: 'standard' }],
  validate: {
    references: [
      {
        name: 'datacenter',
        path: 'spec.datacenter',
        target: { apiGroup: 'infra.example.com', resource: 'datacenters' },
      },
    ],
  },
});

/** A policy on cluster-scoped objects: it has its own webhook. */
const others = admissionPolicy('datacenters', {
  match: { apiGroups: ['infra.example.com'], apiVersions: ['v1'], resources: ['datacenters'] },
  timeoutSeconds: 2,
  validate: { immutable: ['spec.capacity'] },
});

/** The value of one of the replica's metrics. */
async function metric(series: string): Promise<number> {
  const line = (await replica.metrics()).split('\n').find((one) => one.startsWith(`${series} `));
  return Number(line?.slice(series.length));
}

const inFlight = () => metric('gatehouse_admission_reviews_in_flight');
const refused = (reason: string) => metric(`gatehouse_admission_reviews_refused_total{reason="${reason}"}`);

/** Fills one webhook's share of the limit with creates of Servers, whose lookup of the datacenter the proxy holds. */
async function holdUp(name: string): Promise<{ readonly end: () => Promise<void> }> {
  const names = Array.from({ length: AT_A_TIME / 2 }, (_, index) => `${name}-${index}`);
  const creating = names.map((each) => cluster.admin.create(SERVERS, server('shop', each, `slow-${each}`)));
  const ended = Promise.allSettled(creating);
  await eventually('the requests are held', async () => (await inFlight()) === names.length);
  return {
    end: async () => {
      letThrough.resolve(undefined);
      for (const result of await ended) {
        expect(result.status).toBe('rejected'); // the datacenter does not exist
        if (result.status === 'rejected') expect(String(result.reason)).toContain('slow-');
      }
    },
  };
}

test('a create succeeds although its first answer was a 429', async () => {
  const { end } = await holdUp('held');
  const before = await refused('entry');
  const created = cluster.admin.create(SERVERS, server('shop', 'patient', 'fra1'));
  await eventually('the request was refused once', async () => (await refused('entry')) > before);
  expect(await cluster.admin.get(SERVERS, { namespace: 'shop', name: 'patient' })).toBeUndefined();
  await end();
  expect(await created).toMatchObject({ spec: { datacenter: 'fra1', tier: 'standard' } });
});

test('a slow webhook does not stall another one', async () => {
  const { end } = await holdUp('slow');
  const before = await refused('entry');
  const waiting = cluster.admin.create(SERVERS, server('shop', 'waiting', 'fra1'));
  await eventually('its own requests are refused', async () => (await refused('entry')) > before);
  for (let index = 0; index < 10; index += 1) {
    await cluster.admin.create(DATACENTERS, datacenter(`other-${index}`));
  }
  expect(await inFlight()).toBe(AT_A_TIME / 2);
  expect(await refused('reviews')).toBe(0);
  await end();
  await waiting;
  await eventually('no review is in flight', async () => (await inFlight()) === 0);
});
