// suite: shared-plane, sandbox: long
/** The webhook process and the controllers as two processes with two accounts. */
import { afterEach, beforeEach, expect, test } from 'vitest';

import type { RestoreWindow } from '../../src/api/restore-window.ts';
import { clusterAdmin } from '../../src/cli/sandbox/tour-objects.ts';
import type { KubeObject } from '../../src/json/kube-object.ts';
import { secrets, services, validatingWebhookConfigurations } from '../../src/kube/well-known.ts';
import {
  ADMISSION_POLICIES,
  applyExamples,
  RESTORE_WINDOWS,
  startClusterFor,
  SYSTEM_NAMESPACE,
  type Cluster,
} from '../support/cluster.ts';
import { USERS } from '../support/control-plane-users.ts';
import {
  enforceExamples,
  refusal,
  untilRefused,
  seeCondition,
  untilServersChecked,
  webhooksOf,
} from '../support/gatehouse-cluster.ts';
import { isLeading, startReplica, type Replica, type ReplicaOptions } from '../support/gatehouse.ts';
import { admissionPolicy, condition, referencesRole, type Conditioned } from '../support/objects.ts';
import { eventually, freePort } from '../support/processes.ts';

let cluster: Cluster;
let port: number;
let replicas: Replica[];

beforeEach(async () => {
  port = await freePort();
  cluster = await startClusterFor(port);
  replicas = [];
});

afterEach(async () => {
  await Promise.all(replicas.map(({ program }) => program.stop(15_000)));
  await cluster.stop();
});

async function start(
  only: NonNullable<ReplicaOptions['only']>,
  options: Omit<ReplicaOptions, 'name' | 'only'> = {},
): Promise<Replica> {
  const name = `${only}-${replicas.length}`;
  const replica = await startReplica(cluster.plane, { ...options, name, only, port });
  replicas.push(replica);
  return replica;
}

const SERVING = { namespace: SYSTEM_NAMESPACE, name: 'gatehouse-serving' };
type Data = KubeObject & { readonly data?: Readonly<Record<string, string>> };
const installed = () => webhooksOf(cluster, validatingWebhookConfigurations);

/** What Kubernetes sets in pods in the namespace of the Service `gatehouse`, unless their manifest prevents it. */
const SERVICE_LINKS = {
  GATEHOUSE_SERVICE_HOST: '10.96.0.9',
  GATEHOUSE_SERVICE_PORT: '443',
  GATEHOUSE_PORT: 'tcp://10.96.0.9:443',
  GATEHOUSE_PORT_443_TCP: 'tcp://10.96.0.9:443',
  GATEHOUSE_OPERATIONS_PORT: 'tcp://10.96.0.10:8080',
};

test('a webhook replica starts, decides and has its Secret repaired with and without controllers', async () => {
  const [webhook, controllers] = await Promise.all([
    start('webhook', { env: SERVICE_LINKS }),
    start('controllers', { env: SERVICE_LINKS }),
  ]);
  await Promise.all([webhook.whenReady(), controllers.whenReady()]);
  await enforceExamples(cluster);

  const before = await cluster.admin.get<Data>(secrets, SERVING);
  await cluster.admin.patchMerge(secrets, SERVING, { data: { 'gatehouse-state.json': null } });
  await cluster.see<Data>('the copies are back', secrets, SERVING, ({ data }) =>
    Object.entries(before?.data ?? {}).every(([key, value]) => data?.[key] === value),
  );
  await cluster.admin.delete(secrets, SERVING);
  await cluster.see<Data>('the Secret is back', secrets, SERVING, ({ data }) =>
    ['tls.crt', 'gatehouse-state.json'].every((key) => data?.[key] !== undefined),
  );
  const [owner] = (await cluster.admin.get(secrets, SERVING))?.metadata?.ownerReferences ?? [];
  expect(owner, 'the copies do not count as data of another writer').toMatchObject({ kind: 'Service' });

  await controllers.program.stop(15_000);
  await webhook.program.stop(15_000);
  const again = await start('webhook');
  await again.whenReady();
  await untilServersChecked(cluster);
  const writes = cluster.plane
    .auditLog()
    .filter(({ user, verb, objectRef }) => {
      const isReview = /^(authorization|authentication)\.k8s\.io$/.test(objectRef?.apiGroup ?? '');
      return user.username === USERS.webhook.name && !['get', 'list', 'watch'].includes(verb) && !isReview;
    })
    .map(({ verb, requestURI }) => `${verb} ${requestURI}`);
  expect(writes).toEqual([]);
});

test('no webhook is installed before a replica can serve, and none is removed when the replicas are away', async () => {
  await cluster.admin.delete(services, { namespace: SYSTEM_NAMESPACE, name: 'gatehouse' });
  const [webhook, controllers] = await Promise.all([start('webhook'), start('controllers')]);
  await controllers.whenReady();
  await eventually('the replica names the Service', async () =>
    (await webhook.readyz()).text.includes(`Service ${SYSTEM_NAMESPACE}/gatehouse does not exist`),
  );

  await applyExamples(cluster);
  const service = {
    apiVersion: 'v1',
    kind: 'Service',
    metadata: { namespace: SYSTEM_NAMESPACE, name: 'gatehouse' },
  };
  const spec = {
    selector: { app: 'gatehouse' },
    ports: [{ name: 'https', protocol: 'TCP', port, targetPort: port }],
  };
  await cluster.apply({ ...service, ...{ spec } });
  await webhook.whenReady();
  const waiting = await cluster.see<Conditioned>(
    'the policy waits for an endpoint',
    ADMISSION_POLICIES,
    { name: 'servers' },
    (object) => condition(object, 'WebhooksInstalled')?.message.includes('no endpoint is ready') === true,
  );
  expect(condition(waiting, 'WebhooksInstalled')?.status).toBe('False');
  expect(await installed()).toEqual([]);

  const slice = (ready: boolean) => ({
    apiVersion: 'discovery.k8s.io/v1',
    kind: 'EndpointSlice',
    metadata: {
      namespace: SYSTEM_NAMESPACE,
      name: 'gatehouse-1',
      labels: { 'kubernetes.io/service-name': 'gatehouse' },
    },
    addressType: 'IPv4',
    ports: [{ name: 'https', port, protocol: 'TCP' }],
    endpoints: [{ addresses: ['10.0.0.1'], conditions: { ready } }],
  });
  await cluster.apply(slice(false));
  await cluster.apply(slice(true));
  await eventually('the webhooks are installed', async () => (await installed()).length > 1);

  const before = await installed();
  await cluster.apply(slice(false));
  await controllers.program.stop(15_000);
  const next = await start('controllers');
  await next.whenReady();
  await eventually('it leads', () => isLeading(next));
  await cluster.admin.patchMerge(validatingWebhookConfigurations, { name: 'gatehouse' }, { webhooks: [] });
  const isSame = (entries: typeof before) => JSON.stringify(entries) === JSON.stringify(before);
  await eventually('the entries stay installed', async () => isSame(await installed()));
});

test('controllers that run as another user open windows, and the account of the webhooks does not', async () => {
  await cluster.apply(clusterAdmin('alice-is-admin', 'alice'));
  const kubeconfig = cluster.plane.kubeconfig('alice');
  const [webhook, controllers] = await Promise.all([
    start('webhook'),
    start('controllers', { settings: { kubeconfig } }),
  ]);
  await Promise.all([webhook.whenReady(), controllers.whenReady()]);
  const detected: RestoreWindow = {
    metadata: { name: 'velero-3fa9c2d81b0e' },
    spec: {
      principals: [{ user: 'velero' }],
      source: { type: 'Detector', detector: 'velero' },
      expiresAt: new Date(Date.now() + 3_600_000).toISOString(),
    },
  };
  const open = (user: string) =>
    cluster
      .impersonate({ user, groups: ['system:masters'] })
      .create(RESTORE_WINDOWS, detected, { dryRun: true });
  await untilRefused('the window of another user', 'only Gatehouse itself', () => open('bob'));
  expect((await refusal(open(USERS.webhook.name))).message).toContain('only Gatehouse itself');
  expect((await refusal(open(USERS.controllers.name))).message).toContain('only Gatehouse itself');
  expect((await open('alice')).metadata.name).toBe(detected.metadata.name);
});

test('a policy shows the ClusterRole to add until the webhook replicas can also read its kinds', async () => {
  const [webhook, controllers] = await Promise.all([start('webhook'), start('controllers')]);
  await Promise.all([webhook.whenReady(), controllers.whenReady()]);
  await applyExamples(cluster);
  const name = 'settings-exist';
  const target = { apiGroup: '', resource: 'configmaps' };
  const spec = {
    match: { apiGroups: ['infra.example.com'], resources: ['servers'] },
    validate: { references: [{ name: 'settings', path: 'spec.datacenter', target }] },
  };
  await cluster.apply(admissionPolicy(name, spec));
  // The controllers may read ConfigMaps, for CA bundles.
  const waiting = await cluster.see<Conditioned>(
    'the policy is judged',
    ADMISSION_POLICIES,
    { name },
    (object) => ['True', 'False'].includes(condition(object, 'Ready')?.status ?? ''),
  );
  expect(condition(waiting, 'Ready')).toMatchObject({
    status: 'False',
    reason: 'Forbidden',
    message: expect.stringMatching(
      /Gatehouse lacks permission to get, list and watch configmaps[^]*kind: ClusterRole/,
    ) as string,
  });
  await cluster.apply(referencesRole('settings', '', ['configmaps']));
  await seeCondition(cluster, ADMISSION_POLICIES, name, 'Ready', 'True');
});
