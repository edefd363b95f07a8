// suite: shared-plane, sandbox: long, slow, nightly
/** Servers load their certificate once. Gatehouse finds those that have not loaded a renewed one. */
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';

import type { KubeObject } from '../../src/json/kube-object.ts';
import { systemClock } from '../../src/kube/clock.ts';
import { createDiscovery } from '../../src/kube/discovery.ts';
import type { Resource } from '../../src/kube/object.ts';
import { configMaps, events, secrets, services } from '../../src/kube/well-known.ts';
import {
  createNamespace,
  localService,
  startClusterFor,
  SYSTEM_NAMESPACE,
  type Cluster,
} from '../support/cluster.ts';
import { startReplica, type Replica } from '../support/gatehouse.ts';
import { text, type EventObject, type SecretObject } from '../support/objects.ts';
import { isNightly } from '../support/nightly.ts';
import { eventually, freePort } from '../support/processes.ts';
import {
  DIVERT,
  nodeServer,
  programServer,
  servedStates,
  sliceOf,
  type Connections,
  type KeyPair,
  type TlsEndpoint,
} from '../support/tls-endpoints.ts';

let cluster: Cluster;
let slices: Resource;
let port: number;
let running: Replica | undefined;
let endpoints: readonly TlsEndpoint[] = [];

beforeAll(async () => {
  port = await freePort();
  cluster = await startClusterFor(port);
  const wanted = { group: 'discovery.k8s.io', resource: 'endpointslices' };
  const found = await createDiscovery(cluster.adminRest, systemClock).resolve(wanted);
  if (found === undefined) throw new Error('the API server does not serve EndpointSlices');
  slices = found;
});

afterEach(async () => {
  await running?.program.stop(15_000);
  await Promise.all(endpoints.map(({ stop }) => stop()));
  endpoints = [];
});

afterAll(() => cluster.stop());

async function lead(name: string, settings: Parameters<typeof startReplica>[1]['settings'] = {}) {
  const replica = await startReplica(cluster.plane, { name, port, settings, nodeArgs: DIVERT });
  running = replica;
  await replica.whenReady();
  return replica;
}

const requestCert = (namespace: string, name: string) =>
  cluster.admin.create(
    services,
    localService(namespace, name, 443, { 'gatehouse.dev/serving-cert-secret-name': `${name}-tls` }),
  );

const pairIn = (secret: SecretObject): KeyPair => ({
  chain: text(secret, 'tls.crt'),
  key: text(secret, 'tls.key'),
});

/** The content of the Secret, once it differs from `before`. */
async function issued(namespace: string, name: string, before?: KeyPair): Promise<KeyPair> {
  const ref = { namespace, name: `${name}-tls` };
  const isNew = (secret: SecretObject) => !['', before?.chain].includes(text(secret, 'tls.crt'));
  return pairIn(await cluster.see<SecretObject>(`the certificate of ${name}`, secrets, ref, isNew));
}

/** Has Gatehouse make a new certificate. */
async function renew(namespace: string, name: string, before: KeyPair): Promise<KeyPair> {
  await cluster.admin.delete(secrets, { namespace, name: `${name}-tls` });
  return await issued(namespace, name, before);
}

const untilStates = (replica: Replica, expected: Readonly<Record<string, number>>, timeoutMs: number) =>
  eventually(
    `the states ${JSON.stringify(expected)}`,
    async () => {
      const states = servedStates(await replica.metrics());
      const isSeen = Object.entries(expected).every(([state, count]) => states[state] === count);
      if (!isSeen) throw new Error(JSON.stringify(states));
      return true;
    },
    { timeoutMs, everyMs: 200 },
  );

const seeEvent = (namespace: string, reason: string) =>
  eventually(`the Event ${reason}`, async () => {
    const { items } = await cluster.admin.listAll<EventObject>(events, { namespace });
    return items.find((event) => event.reason === reason && event.involvedObject.name === 'db');
  });

test('servers that load their certificate once are named after a renewal, until they are restarted', async () => {
  const replica = await lead('one', { 'serving-cert-reload-time': '5s' });
  await createNamespace(cluster, 'shop');
  await requestCert('shop', 'db');
  const first = await issued('shop', 'db');
  const serverPort = await freePort();
  const reloading = await nodeServer('reloads', '198.18.0.1', serverPort, first);
  const once = await nodeServer('node', '198.18.0.2', serverPort, first);
  const { folder } = cluster.plane;
  const startPrograms = async (pair: KeyPair) =>
    (
      await Promise.all([
        programServer('openssl', '198.18.0.3', serverPort, pair, folder),
        programServer('nginx', '198.18.0.4', serverPort, pair, folder),
        programServer('java', '198.18.0.6', serverPort, pair, folder),
      ])
    ).filter((one) => one !== undefined);
  const programs = await startPrograms(first);
  endpoints = [reloading, once, ...programs];
  const stale = endpoints.length - 1;
  const absent = { pod: 'absent', address: '198.18.0.5' };
  await cluster.admin.create(slices, sliceOf('shop', 'db', serverPort, [...endpoints, absent]));
  await untilStates(replica, { current: endpoints.length, stale: 0, unreachable: 1, foreign: 0 }, 60_000);

  const second = await renew('shop', 'db', first);
  reloading.load(second);
  await untilStates(replica, { current: 1, stale, unreachable: 1 }, 60_000);
  const { message } = await seeEvent('shop', 'StaleCertificate');
  expect(message).toContain(['node', ...programs.map(({ pod }) => pod)].sort().join(', '));
  expect(message).not.toMatch(/reloads|absent/);
  const report = { namespace: SYSTEM_NAMESPACE, name: 'gatehouse-served-certs' };
  await cluster.see<KubeObject & { data?: Record<string, string> }>(
    'the report',
    configMaps,
    report,
    ({ data }) => (data?.['report.json'] ?? '').includes('"service": "db"'),
  );

  await Promise.all([once, ...programs].map(({ stop }) => stop()));
  const restarted = [
    await nodeServer('node', '198.18.0.2', serverPort, second),
    ...(await startPrograms(second)),
  ];
  endpoints = [reloading, ...restarted];
  await untilStates(replica, { current: endpoints.length, stale: 0 }, 60_000);
  await seeEvent('shop', 'CertificateReloaded');
});

const [SERVICES, PODS] = [isNightly ? 30 : 6, 10];
const WITHIN_MS = 60_000;

test(`in a scene with ${SERVICES * PODS} endpoints, every stale server is found within 60 s of its renewal`, async () => {
  const replica = await lead('two');
  await createNamespace(cluster, 'crowd');
  const serverPort = await freePort();
  const connections: Connections = { open: 0, most: 0, lastAt: 0 };
  const names = Array.from({ length: SERVICES }, (_, number) => `s${number}`);
  const scenes = await Promise.all(
    names.map(async (name, number) => {
      await requestCert('crowd', name);
      const pair = await issued('crowd', name);
      const servers = await Promise.all(
        Array.from({ length: PODS }, (_, pod) =>
          nodeServer(`${name}-${pod}`, `198.18.${number + 1}.${pod + 1}`, serverPort, pair, connections),
        ),
      );
      endpoints = [...endpoints, ...servers];
      await cluster.admin.create(slices, sliceOf('crowd', name, serverPort, servers));
      return { name, pair, servers };
    }),
  );
  await untilStates(replica, { current: SERVICES * PODS, stale: 0 }, 120_000);
  await eventually('the leader is idle', () => Date.now() - connections.lastAt > 21_000);

  const cpu = async () => Number(/^process_cpu_seconds_total (\S+)/m.exec(await replica.metrics())?.[1]);
  const [renewedAt, cpuBefore] = [performance.now(), await cpu()];
  await Promise.all(
    scenes.map(async ({ name, pair, servers }) => {
      const next = await renew('crowd', name, pair);
      for (const server of servers.slice(0, PODS / 2)) server.load(next);
    }),
  );
  const half = (SERVICES * PODS) / 2;
  await untilStates(replica, { current: half, stale: half }, WITHIN_MS);
  const seconds = (performance.now() - renewedAt) / 1_000;
  const load = ((await cpu()) - cpuBefore) / seconds;
  console.log(
    `${half} stale servers of ${2 * half} found after ${seconds.toFixed(1)} s; at most ${connections.most} connections; ` +
      `the process used ${(load * 100).toFixed(1)} % of a core`,
  );
  expect(seconds).toBeLessThan(WITHIN_MS / 1_000);
  expect(connections.most).toBeLessThanOrEqual(20);
}, 300_000);
