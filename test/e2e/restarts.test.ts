// suite: shared-plane, sandbox: long, slow
/**
 * Servers load their certificate once. Gatehouse finds those that have not loaded a renewed one, and restarts Deployments that ask for
 * it. No controller replaces pods here.
 */
import { afterAll, beforeAll, expect, test } from 'vitest';

import type { KubeObject, OwnerReference } from '../../src/json/kube-object.ts';
import { systemClock } from '../../src/kube/clock.ts';
import { createDiscovery } from '../../src/kube/discovery.ts';
import type { Resource } from '../../src/kube/object.ts';
import {
  configMaps,
  deployments,
  events,
  pods,
  replicaSets,
  secrets,
  services,
} from '../../src/kube/well-known.ts';
import type { Workload } from '../../src/runtime/endpoints/restart-plan.ts';
import {
  createNamespace,
  startClusterFor,
  SYSTEM_NAMESPACE,
  type Cluster,
  askForCertificate,
} from '../support/cluster.ts';
import { startReplica, type Replica } from '../support/gatehouse.ts';
import { text, type EventObject, type SecretObject } from '../support/objects.ts';
import { eventually, freePort } from '../support/processes.ts';
import {
  DIVERT,
  nodeServer,
  servedStates,
  sliceOf,
  type KeyPair,
  type TlsEndpoint,
} from '../support/tls-endpoints.ts';

interface Deployment extends Workload {
  readonly spec?: Workload['spec'] & {
    readonly template?: { readonly metadata?: { readonly annotations?: Readonly<Record<string, string>> } };
  };
}

const labels = { app: 'api' };
const RESTARTED_AT = 'kubectl.kubernetes.io/restartedAt';

let cluster: Cluster;
let replica: Replica;
let slices: Resource;
let endpoints: TlsEndpoint[] = [];

beforeAll(async () => {
  const port = await freePort();
  cluster = await startClusterFor(port, { withoutControllers: ['deployment', 'replicaset'] });
  await cluster.applyFolder('components/restarts');
  const discovery = createDiscovery(cluster.adminRest, systemClock);
  const found = await discovery.resolve({ group: 'discovery.k8s.io', resource: 'endpointslices' });
  if (found === undefined) throw new Error('the API server does not serve EndpointSlices');
  slices = found;
  const settings = { 'serving-cert-reload-time': '5s' };
  replica = await startReplica(cluster.plane, { name: 'one', port, settings, nodeArgs: DIVERT });
  await replica.whenReady();
});

afterAll(async () => {
  await replica.program.stop(15_000);
  await Promise.all(endpoints.map(({ stop }) => stop()));
  await cluster.stop();
});

const permit = (namespace: string) =>
  cluster.apply({
    apiVersion: 'rbac.authorization.k8s.io/v1',
    kind: 'RoleBinding',
    metadata: { namespace, name: 'gatehouse-restarts' },
    ...{
      roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'ClusterRole', name: 'gatehouse-restarts' },
      subjects: [{ kind: 'ServiceAccount', name: 'gatehouse', namespace: SYSTEM_NAMESPACE }],
    },
  });

const ownerOf = (kind: string, { metadata }: KubeObject): OwnerReference => ({
  apiVersion: 'apps/v1',
  kind,
  name: metadata?.name ?? '',
  uid: metadata?.uid ?? '',
  controller: true,
});

/** The Deployment has been rolled out, with one pod. */
async function deploy(namespace: string, podIP: string): Promise<void> {
  const podSpec = { containers: [{ name: 'api', image: 'api' }] };
  const template = { metadata: { labels }, spec: podSpec };
  const spec = { replicas: 1, selector: { matchLabels: labels }, template };
  const annotations = { 'gatehouse.dev/restart-on-renewal': 'true' };
  const deployment = await cluster.admin.create(deployments, {
    metadata: { namespace, name: 'api', annotations },
    spec,
  });
  const set = await cluster.admin.create(replicaSets, {
    metadata: { namespace, name: 'api-1', labels, ownerReferences: [ownerOf('Deployment', deployment)] },
    spec,
  });
  const pod = {
    metadata: { namespace, name: 'api-1-x', labels, ownerReferences: [ownerOf('ReplicaSet', set)] },
    spec: podSpec,
  };
  // The API server refuses a pod until the namespace has its ServiceAccount.
  await eventually('the pod is created', () => cluster.admin.create(pods, pod));
  await cluster.admin.patchStatus(pods, { namespace, name: 'api-1-x' }, { status: { podIP } });
  await rolledOut(namespace);
}

/** As the controller of Deployments reports it. */
async function rolledOut(namespace: string): Promise<void> {
  const ref = { namespace, name: 'api' };
  const { metadata } = (await cluster.admin.get<Deployment>(deployments, ref)) ?? {};
  const counts = { replicas: 1, updatedReplicas: 1, readyReplicas: 1, availableReplicas: 1 };
  const status = { ...counts, observedGeneration: metadata?.generation };
  await cluster.admin.patchStatus(deployments, ref, { status });
}

/** The certificate in the Secret of a Service, once it differs from `before`. */
const issued = async (namespace: string, name = 'api', before?: KeyPair): Promise<KeyPair> => {
  const isNew = (secret: SecretObject) => !['', before?.chain].includes(text(secret, 'tls.crt'));
  const ref = { namespace, name: `${name}-tls` };
  const secret = await cluster.see<SecretObject>('the certificate', secrets, ref, isNew);
  return { chain: text(secret, 'tls.crt'), key: text(secret, 'tls.key') };
};

/** Has Gatehouse make a new certificate. */
async function renew(namespace: string, name: string, before: KeyPair): Promise<KeyPair> {
  await cluster.admin.delete(secrets, { namespace, name: `${name}-tls` });
  return await issued(namespace, name, before);
}

/** A Service whose server presents an earlier certificate than the Secret contains. */
async function staleScene(namespace: string, address: string): Promise<void> {
  await createNamespace(cluster, namespace);
  const annotations = { 'gatehouse.dev/serving-cert-secret-name': 'api-tls' };
  await cluster.admin.create(services, {
    metadata: { namespace, name: 'api', annotations },
    spec: { selector: labels, ports: [{ name: 'https', port: 443 }] },
  });
  const first = await issued(namespace);
  await deploy(namespace, address);
  const port = await freePort();
  const server = await nodeServer('api-1-x', address, port, first);
  endpoints.push(server);
  await cluster.admin.create(slices, sliceOf(namespace, 'api', port, [server]));
  await renew(namespace, 'api', first);
}

const seeEvent = (namespace: string, wanted: string, kind: string) =>
  eventually(`the Event ${wanted} on the ${kind}`, async () => {
    const { items } = await cluster.admin.listAll<EventObject>(events, { namespace });
    return items.find(({ reason, involvedObject }) => reason === wanted && involvedObject.kind === kind);
  });

const untilStates = (expected: Readonly<Record<string, number>>) =>
  eventually(
    `the states ${JSON.stringify(expected)}`,
    async () => {
      expect(servedStates(await replica.metrics())).toMatchObject(expected);
      return true;
    },
    { timeoutMs: 60_000, everyMs: 200 },
  );

test('servers that load their certificate once are named after a renewal, until they are restarted', async () => {
  await createNamespace(cluster, 'once');
  await askForCertificate(cluster, 'once', 'db');
  const first = await issued('once', 'db');
  const port = await freePort();
  const startAll = (pair: KeyPair) =>
    Promise.all(['one', 'two'].map((name, n) => nodeServer(name, `198.18.1.${n + 2}`, port, pair)));
  const reloading = await nodeServer('reloads', '198.18.1.1', port, first);
  const once = await startAll(first);
  endpoints = [reloading, ...once];
  const absent = { pod: 'absent', address: '198.18.1.5' };
  await cluster.admin.create(slices, sliceOf('once', 'db', port, [...endpoints, absent]));
  await untilStates({ current: endpoints.length, stale: 0, unreachable: 1, foreign: 0 });

  const second = await renew('once', 'db', first);
  reloading.load(second);
  await untilStates({ current: 1, stale: once.length, unreachable: 1 });
  const { message } = await seeEvent('once', 'StaleCertificate', 'Service');
  expect(message).toContain('one, two');
  expect(message).not.toMatch(/reloads|absent/);
  const report = { namespace: SYSTEM_NAMESPACE, name: 'gatehouse-served-certs' };
  await cluster.see<KubeObject & { data?: Record<string, string> }>(
    'the report',
    configMaps,
    report,
    ({ data }) => (data?.['report.json'] ?? '').includes('"service": "db"'),
  );

  await Promise.all(once.map(({ stop }) => stop()));
  endpoints = [reloading, ...(await startAll(second))];
  await untilStates({ current: endpoints.length, stale: 0 });
  await seeEvent('once', 'CertificateReloaded', 'Service');
}, 180_000);

const read = async (namespace: string) =>
  await cluster.admin.get<Deployment>(deployments, { namespace, name: 'api' });
const restartedAt = async (namespace: string) =>
  (await read(namespace))?.spec?.template?.metadata?.annotations?.[RESTARTED_AT];

test('a stale Deployment is restarted once where the administrator permits it, and nowhere else', async () => {
  await Promise.all([staleScene('closed', '198.18.0.2'), staleScene('shop', '198.18.0.1')]);
  await permit('shop');
  await seeEvent('shop', 'RestartedForCertificate', 'Deployment');
  await seeEvent('shop', 'RestartedForCertificate', 'Service');
  const at = await restartedAt('shop');
  expect(Date.now() - Date.parse(at ?? '')).toBeLessThan(60_000);
  const { metadata } = (await read('shop')) ?? {};
  expect(metadata?.annotations).toHaveProperty(['gatehouse.dev/restarted-for']);
  expect(metadata?.generation).toBe(2);

  // The server still presents the old certificate after the rollout.
  await rolledOut('shop');
  const { message } = await seeEvent('shop', 'RestartRefused', 'Deployment');
  expect(message).toContain('a restart for this certificate did not help');
  expect(await restartedAt('shop')).toBe(at);
  expect(await replica.metrics()).toContain('gatehouse_workload_restarts_total{result="restarted"} 1');

  await seeEvent('closed', 'StaleCertificate', 'Service');
  expect(await restartedAt('closed')).toBeUndefined();
}, 180_000);
