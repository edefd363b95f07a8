// suite: shared-plane, sandbox: long
/** An API server that no longer serves MutatingAdmissionPolicies, as after a downgrade below Kubernetes 1.36. */
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, expect, test } from 'vitest';

import type { AdmissionPolicyStatus } from '../../src/api/admission-policy.ts';
import type { LiveWebhookConfiguration } from '../../src/admission/webhooks/dev-entries.ts';
import type { KubeObject } from '../../src/json/kube-object.ts';
import {
  configMaps,
  mutatingAdmissionPolicies,
  mutatingWebhookConfigurations,
} from '../../src/kube/well-known.ts';
import { startApiProxy, type ApiProxy } from '../support/api-proxy.ts';
import { hasMutatingPolicies } from '../support/backstop.ts';
import { ADMISSION_POLICIES, createNamespace, startClusterFor, type Cluster } from '../support/cluster.ts';
import { startReplica, type Replica } from '../support/gatehouse.ts';
import { eventually, freePort } from '../support/processes.ts';
import { admissionPolicy } from '../support/objects.ts';

interface Policy extends KubeObject {
  readonly status?: AdmissionPolicyStatus;
}

const NAME = 'downgrade';
const COMPILED = { name: `${NAME}.changes.gatehouse.dev` };

let cluster: Cluster;
let proxy: ApiProxy;
let replica: Replica;
let isServed: boolean;
const OLDER = 'this API server serves no MutatingAdmissionPolicies';
let isOlder = false;

const NOT_FOUND = { code: 404, body: { kind: 'Status', status: 'Failure', reason: 'NotFound', code: 404 } };
const served = (name: string, kind: string) => ({ name, kind, namespaced: false, verbs: ['list', 'watch'] });
const RESOURCES = [
  served('validatingadmissionpolicies', 'ValidatingAdmissionPolicy'),
  served('validatingadmissionpolicybindings', 'ValidatingAdmissionPolicyBinding'),
];

/** On demand, the API server is older than Kubernetes 1.36. */
function older(method: string, path: string) {
  if (!isOlder) return undefined;
  if (path.includes('/mutatingadmissionpolic')) return NOT_FOUND;
  const isDiscovery = /^\/apis\/admissionregistration\.k8s\.io\/v1(\?|$)/.test(path);
  return method === 'GET' && isDiscovery
    ? { code: 200, body: { kind: 'APIResourceList', resources: RESOURCES } }
    : undefined;
}

beforeAll(async () => {
  const port = await freePort();
  cluster = await startClusterFor(port);
  isServed = hasMutatingPolicies(cluster);
  await cluster.applyFolder('components/compile-policies');
  await createNamespace(cluster, NAME);
  proxy = await startApiProxy(cluster.plane, 'older', (method, path) => Promise.resolve(older(method, path)));
  const settings = { 'compile-policies': 'true', kubeconfig: proxy.kubeconfig('gatehouse') };
  replica = await startReplica(cluster.plane, { name: 'one', port, settings });
  await replica.whenReady();
});

afterAll(async () => {
  await replica.program.stop(15_000);
  await proxy.stop();
  await cluster.stop();
});

const POLICY = admissionPolicy(NAME, {
  match: {
    ...{ apiGroups: [''], apiVersions: ['v1'], resources: ['configmaps'] },
    objectSelector: { matchLabels: { suite: NAME } },
  },
  defaults: [{ path: 'data.tier', value: 'gold' }],
  validate: { rules: [{ name: 'token', expression: '!("token" in object.?data.orValue({}))' }] },
});

const status = async () => (await cluster.admin.get<Policy>(ADMISSION_POLICIES, { name: NAME }))?.status;

const isNarrow = async () => {
  const ref = { name: 'gatehouse' };
  const found = await cluster.admin.get<LiveWebhookConfiguration>(mutatingWebhookConfigurations, ref);
  return found?.webhooks?.some(({ name }) => name.includes('.left.')) === true;
};

test('the defaults return to the webhook, and the checks stay with the API server', async ({ skip }) => {
  skip(!isServed, OLDER);
  await cluster.apply(POLICY);
  await eventually('the API server enforces both', async () => (await status())?.compiled === '2/2');
  await eventually('the narrow entry', isNarrow);
  isOlder = true;
  proxy.watches.harm({ kind: 'break' }, (path) => path.includes('/mutatingadmissionpolic'));
  await eventually('the webhook fills', async () => (await status())?.compiled === '1/2');
  expect((await status())?.enforcedBy).toEqual([
    { check: 'rule token', by: 'APIServer' },
    {
      ...{ check: 'defaults', by: 'Webhook' },
      reason: 'the API server serves no MutatingAdmissionPolicies: it does from Kubernetes 1.36 on',
    },
  ]);
  await eventually('the whole entry', async () => !(await isNarrow()));
  await cluster.admin.delete(mutatingAdmissionPolicies, COMPILED);
  await sleep(2_000); // the API server takes policies over once a second
  const object = {
    apiVersion: 'v1',
    kind: 'ConfigMap',
    metadata: { name: 'a', namespace: NAME, labels: { suite: NAME } },
  };
  expect(await cluster.admin.create(configMaps, object, { dryRun: true })).toMatchObject({
    data: { tier: 'gold' },
  });
});
