// suite: shared-plane, sandbox: long
/**
 * What a thief with the token of the controllers can write, with the policies of deploy/components/backstop in force. In
 * this cluster, the account may write everything: the policies alone refuse.
 */
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';

import { listIn, valueIn } from '../../src/json/json.ts';
import type { KubeObject } from '../../src/json/kube-object.ts';
import type { KubeClient } from '../../src/kube/client.ts';
import {
  configMaps,
  deployments,
  secrets,
  services,
  validatingAdmissionPolicies,
  validatingAdmissionPolicyBindings,
  validatingWebhookConfigurations,
} from '../../src/kube/well-known.ts';
import { ATTACKS } from '../support/backstop/all-attacks.ts';
import { BUNDLE, HOME, TENANT } from '../support/backstop/attack.ts';
import { applyBackstop } from '../support/backstop.ts';
import {
  CLUSTER_ROLE_BINDINGS,
  createNamespace,
  startClusterFor,
  untilAuthorized,
  type Cluster,
} from '../support/cluster.ts';
import { refusal, untilPoliciesEnforced } from '../support/gatehouse-cluster.ts';
import { createKubectl, HAS_KUBECTL } from '../support/kubectl.ts';
import { eventually, freePort } from '../support/processes.ts';
import { grant, deployment } from '../support/objects.ts';
import { kustomized } from '../support/kustomization.ts';

const ACCOUNTS = ['gatehouse-controllers', 'gatehouse'] as const;

let cluster: Cluster;

beforeAll(async () => {
  cluster = await startClusterFor(await freePort());
  for (const name of [TENANT, 'elsewhere']) await createNamespace(cluster, name);
  for (const account of ACCOUNTS) await makeAdministrator(HOME, account);
  await untilPoliciesEnforced(cluster);
});
afterAll(() => cluster.stop());

/** Resolves when the API server has seen it. */
async function makeAdministrator(namespace: string, account: string): Promise<void> {
  await cluster.apply({
    apiVersion: 'rbac.authorization.k8s.io/v1',
    kind: 'ClusterRoleBinding',
    metadata: { name: `thief-${namespace}-${account}` },
    ...{
      roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'ClusterRole', name: 'cluster-admin' },
      subjects: [{ kind: 'ServiceAccount', name: account, namespace }],
    },
  });
}

interface Rule {
  readonly apiGroups: readonly string[];
  readonly resources: readonly string[];
  readonly resourceNames?: readonly string[];
  readonly verbs: readonly string[];
}

/** Gives the account of the controllers one more role. */
const permit = (name: string, rule: Rule) =>
  cluster.apply(...grant(name, [`system:serviceaccount:${HOME}:gatehouse-controllers`], [rule]));

const thief = (account: string, namespace = HOME): KubeClient =>
  cluster.impersonate({
    user: `system:serviceaccount:${namespace}:${account}`,
    groups: ['system:serviceaccounts', `system:serviceaccounts:${namespace}`, 'system:authenticated'],
  });

describe('the backstop refuses what a thief with the token of the controllers writes', () => {
  test.each(ATTACKS)('$policy: $name', async ({ policy, before, write }) => {
    if (before !== undefined) await cluster.admin.create(...before);
    for (const account of ACCOUNTS) {
      const error = await refusal(write(thief(account)));
      expect(error.code).toBe(403);
      expect(error.message).toContain(`ValidatingAdmissionPolicy 'gatehouse-backstop-${policy}'`);
      expect(error.message).not.toContain('resulted in error');
    }
    // The write itself is valid: only the account makes the difference.
    await write(cluster.admin);
  });
});

test('other accounts write as before', async () => {
  await makeAdministrator('cert-manager', 'cert-manager');
  await thief('cert-manager', 'cert-manager').create(secrets, {
    metadata: { name: 'of-others', namespace: TENANT },
  });
});

test('what a controller of users applied passes where its role grants the kind, and nothing else does', async () => {
  await cluster.admin.delete(CLUSTER_ROLE_BINDINGS, { name: `thief-${HOME}-gatehouse-controllers` });
  const account = thief('gatehouse-controllers');
  const object = (name: string, labels: Readonly<Record<string, string>> = {}, namespace = TENANT) => ({
    metadata: { name, namespace, labels },
  });
  const ours = { 'gatehouse.dev/controller': 'users' };
  const verbs = ['get', 'create', 'patch', 'delete'];
  await permit('owns', { apiGroups: [''], resources: ['configmaps', 'secrets'], verbs });
  const refused = async (attempt: Promise<unknown>, policy: string) =>
    expect((await refusal(attempt)).message).toContain(`gatehouse-backstop-${policy}`);
  await refused(account.create(configMaps, object('too-early', ours)), 'config-maps');

  const rule = { apiGroups: ['gatehouse.dev'], resources: ['ownedkinds'], resourceNames: ['configmaps'] };
  await permit('owns-config-maps', { ...rule, verbs: ['write'] });
  await account.create(configMaps, object('owned', ours));
  const place = { namespace: TENANT, name: 'owned' };
  await account.patchMerge(configMaps, place, { data: { a: 'b' } });
  await account.delete(configMaps, place);
  await refused(account.create(configMaps, object('unmarked')), 'config-maps');
  await refused(account.create(configMaps, object('at-home', ours, HOME)), 'config-maps');
  await refused(account.create(secrets, object('not-granted', ours)), 'secrets');
  await cluster.admin.create(configMaps, object('foreign'));
  const foreign = { namespace: TENANT, name: 'foreign' };
  await refused(account.patchMerge(configMaps, foreign, { metadata: { labels: ours } }), 'config-maps');

  await permit('owns-others', { ...rule, resourceNames: ['secrets.vault.example.com'], verbs: ['write'] });
  await refused(account.create(secrets, object('of-another-group', ours)), 'secrets');
  await permit('owns-secrets', { ...rule, resourceNames: ['secrets'], verbs: ['write'] });
  await account.create(secrets, object('granted', ours));
  const annotations = { 'kubernetes.io/service-account.name': 'default' };
  const { metadata } = object('token', ours);
  const token = { metadata: { ...metadata, annotations }, type: 'kubernetes.io/service-account-token' };
  await refused(account.create(secrets, token), 'secrets');
  // Its owner can join the cluster as a node.
  const bootstrap = { ...object('bootstrap-token-abcdef', ours), type: 'bootstrap.kubernetes.io/token' };
  await refused(account.create(secrets, bootstrap), 'secrets');
});

test('a workload can be paused where a role grants the kind, and nothing else of it can be changed', async () => {
  const account = thief('gatehouse-controllers');
  const ref = { namespace: TENANT, name: 'paused' };
  await cluster.admin.create(deployments, deployment('paused', 3, { namespace: TENANT }));
  const marks = (value: string | null) => ({
    annotations: { 'gatehouse.dev/quiesced': value },
    labels: { 'gatehouse.dev/quiesced': value },
  });
  const pause = { metadata: marks('true'), spec: { replicas: 0 } };
  const refused = async (patch: object) =>
    expect((await refusal(account.patchMerge(deployments, ref, patch))).message).toContain(
      'backstop-workloads',
    );

  await permit('patches', { apiGroups: ['apps'], resources: ['deployments'], verbs: ['get', 'patch'] });
  await refused(pause);
  const rule = { apiGroups: ['gatehouse.dev'], resources: ['quiescedkinds'], verbs: ['pause'] };
  await permit('pauses-others', { ...rule, resourceNames: ['statefulsets.apps'] });
  await refused(pause);
  await permit('pauses', { ...rule, resourceNames: ['deployments.apps'] });
  await account.patchMerge(deployments, ref, pause);
  const other = { containers: [{ name: 'app', image: 'example.com/thief' }] };
  await refused({ spec: { template: { spec: other } } });
  await refused({ spec: { minReadySeconds: 5 } });
  await refused({ metadata: { labels: { team: 'thief' } } });
  await refused({ metadata: { annotations: { team: 'thief' } } });
  await refused({ metadata: { finalizers: ['example.com/hold'] } });
  await account.patchMerge(deployments, ref, { metadata: marks(null), spec: { replicas: 3 } });
  await refused({ spec: { replicas: 9 } });
});

describe('an object with recorded owners can be linked again, and nothing else of it can be changed', () => {
  const record = 'gatehouse.dev/owner-references';
  const workload = deployment('linked', 1, { namespace: TENANT });
  test.each([
    ['config-maps', configMaps, {}, { data: { a: 'b' } }],
    ['secrets', secrets, {}, { data: { a: 'Yg==' } }],
    ['definitions', services, { spec: { ports: [{ port: 80 }] } }, { spec: { type: 'NodePort' } }],
    ['workloads', deployments, { spec: workload.spec }, { spec: { replicas: 9 } }],
  ] as const)('%s', async (policy, kind, content, change) => {
    const ref = { namespace: TENANT, name: 'linked' };
    const account = thief('gatehouse');
    const { metadata: keeper } = await cluster.admin.create<KubeObject>(configMaps, {
      metadata: { namespace: TENANT, name: `keeper-of-${policy}` },
    });
    const owner = { apiVersion: 'v1', kind: 'ConfigMap', name: keeper?.name, uid: keeper?.uid };
    const link = { ownerReferences: [owner], annotations: { [record]: 'linked' } };
    const refused = async (patch: object) =>
      expect((await refusal(account.patchMerge(kind, ref, patch))).message).toContain(`backstop-${policy}`);

    await cluster.admin.create(kind, { metadata: { ...ref, annotations: { team: 'shop' } }, ...content });
    await refused({ metadata: link });
    await cluster.admin.patchMerge(kind, ref, { metadata: { annotations: { [record]: 'recorded' } } });
    await refused({ metadata: { ...link, labels: { team: 'thief' } } });
    await refused({ metadata: { ...link, annotations: { team: null } } });
    await refused({ metadata: { ...link, finalizers: ['example.com/hold'] } });
    await refused({ metadata: link, ...change });
    await account.patchMerge(kind, ref, { metadata: link });
    await account.patchMerge(kind, ref, { metadata: { annotations: { [record]: null } } });
    await refused({ metadata: { ownerReferences: [] } });
  });
});

test('an owner who refuses bundles gets none, whatever annotations of other systems say', async () => {
  await applyBackstop(cluster, ['openshift', 'certManager']);
  await untilPoliciesEnforced(cluster);
  const theirs = {
    'service.beta.openshift.io/inject-cabundle': 'true',
    'cert-manager.io/inject-ca-from': 'a/b',
  };
  const webhook = (caBundle?: string) => ({
    name: 'one.example.com',
    clientConfig: { url: 'https://hook.example', ...(caBundle === undefined ? {} : { caBundle }) },
    rules: [],
    sideEffects: 'None',
    admissionReviewVersions: ['v1'],
  });
  const fill = async (name: string, annotations: Readonly<Record<string, string>>) => {
    const before = { metadata: { name, annotations }, webhooks: [webhook()] };
    await cluster.admin.create(validatingWebhookConfigurations, before);
    const patch = { webhooks: [webhook(BUNDLE)] };
    await thief('gatehouse').patchMerge(validatingWebhookConfigurations, { name }, patch);
  };
  await fill('of-other-systems', theirs);
  const error = await refusal(fill('refuses', { ...theirs, 'gatehouse.dev/inject-cabundle': 'false' }));
  expect(error.message).toContain('backstop-webhooks');
  const data = { 'service-ca.crt': 'x' };
  const annotations = { ...theirs, 'gatehouse.dev/inject-cabundle': 'false' };
  const place = { namespace: TENANT, name: 'refuses' };
  await cluster.admin.create(configMaps, { metadata: { ...place, annotations } });
  expect((await refusal(thief('gatehouse').patchMerge(configMaps, place, { data }))).message).toContain(
    'backstop-config-maps',
  );
  await applyBackstop(cluster);
  await untilPoliciesEnforced(cluster);
});

test('the account can neither change nor delete the policies with its own permissions', async () => {
  const gatehouse = await cluster.as('gatehouse');
  await cluster.admin.delete(CLUSTER_ROLE_BINDINGS, { name: `thief-${HOME}-gatehouse` });
  await untilAuthorized(cluster);
  for (const resource of [validatingAdmissionPolicies, validatingAdmissionPolicyBindings]) {
    const ref = { name: 'gatehouse-backstop-secrets' };
    const live = await cluster.admin.get<KubeObject>(resource, ref);
    for (const attempt of [
      () => gatehouse.delete(resource, ref),
      () => gatehouse.replace(resource, live ?? {}),
      () => gatehouse.patchMerge(resource, ref, { spec: null }),
    ])
      expect((await refusal(attempt())).code).toBe(403);
  }
});

test('kube-controller-manager finds no mistake in the types of the policies', async () => {
  const warnings = await eventually('the type check', async () => {
    const { items } = await cluster.admin.list<KubeObject>(validatingAdmissionPolicies);
    const ours = items.filter(({ metadata }) => metadata?.name?.startsWith('gatehouse-backstop-') === true);
    const isChecked = (one: KubeObject) =>
      valueIn(one, 'status', 'observedGeneration') === one.metadata?.generation;
    return ours.length > 0 && ours.every(isChecked)
      ? ours.flatMap((one) => listIn(one, 'status', 'typeChecking', 'expressionWarnings'))
      : undefined;
  });
  expect(warnings).toEqual([]);
});

test.skipIf(!HAS_KUBECTL)('the policies follow an overlay with another namespace', async () => {
  const home = 'admission';
  const kubectl = createKubectl(cluster.plane);
  onTestFinished(() => {
    kubectl.stop();
  });
  const rendered = await kustomized('overlays/default', { namespace: home });
  await kubectl.says('apply -f -', { stdin: rendered });
  await makeAdministrator(home, 'gatehouse-controllers');
  await untilPoliciesEnforced(cluster);
  const stolen = { metadata: { name: 'stolen', namespace: 'kube-system' } };
  const controllers = thief('gatehouse-controllers', home);
  expect((await refusal(controllers.create(secrets, stolen))).message).toContain(
    'gatehouse-backstop-secrets',
  );
  const state = (namespace: string) => ({ metadata: { name: 'gatehouse-authority', namespace } });
  await controllers.create(secrets, state(home));
  expect((await refusal(controllers.create(secrets, state(HOME)))).code).toBe(403);
});
