// suite: own-plane, sandbox: no (it does not run admission plugins)
/**
 * Owner references where the API server checks the permission to set them (OwnerReferencesPermissionEnforcement), as on
 * OpenShift: those of restored objects, and those of Secrets with certificates, with the shipped roles.
 */
import { afterAll, beforeAll, expect, test } from 'vitest';

import { DATACENTERS, SERVERS } from '../../src/cli/sandbox/tour-objects.ts';
import { secrets, services } from '../../src/kube/well-known.ts';
import { applyBackstop } from '../support/backstop.ts';
import { askForCertificate, createNamespace, localService, type Cluster } from '../support/cluster.ts';
import { startGatehouse } from '../support/gatehouse-cluster.ts';
import { seeEvent } from '../support/injection-objects.ts';
import { condition, datacenter, text, type SecretObject } from '../support/objects.ts';
import { createOwnerScene, ownersOf, recordOf, type OwnerScene } from '../support/owner-scene.ts';

let cluster: Cluster;
let scene: OwnerScene;

beforeAll(async () => {
  cluster = (
    await startGatehouse({
      admissionPlugins: ['OwnerReferencesPermissionEnforcement'],
      settings: { compat: 'openshift' },
      prepare: async (prepared) => {
        await prepared.applyFolder('components/openshift-compat');
        await applyBackstop(prepared, ['openshift']);
      },
    })
  ).cluster;
  scene = await createOwnerScene(cluster, { finalizers: false });
});

afterAll(() => cluster.stop());

test('G8: without the permission to update finalizers, owners are linked without blockOwnerDeletion, and the report shows that', async () => {
  const backup = await scene.backUp('child', 'owner', { blockOwnerDeletion: true });
  await scene.open('g8');
  await scene.restorer.create(SERVERS, backup);
  const owner = await scene.restorer.create(DATACENTERS, datacenter('owner'));
  const report = await scene.close('g8');
  const child = await scene.find('child');
  expect(ownersOf(child)).toMatchObject([{ uid: owner.metadata?.uid, blockOwnerDeletion: false }]);
  expect(recordOf(child)).toContain('"blockOwnerDeletion":false');
  expect(report.status?.relink).toMatchObject({
    linked: 1,
    failed: 0,
    items: [{ result: 'Linked', message: expect.stringContaining('blockOwnerDeletion') as string }],
  });
  expect(condition(report, 'OwnersRelinked')?.status).toBe('True');
});

test('at admission, the API server checks the permissions of the restorer, which are sufficient', async () => {
  const backup = await scene.backUp('prompt', 'present', { blockOwnerDeletion: true });
  await scene.open('prompt');
  await scene.restorer.create(DATACENTERS, datacenter('present'));
  const child = await scene.restorer.create(SERVERS, backup);
  expect(ownersOf(child)).toMatchObject([{ name: 'present', blockOwnerDeletion: true }]);
  await scene.close('prompt');
});

const MARK = 'gatehouse.dev/serving-cert-service';
const owner = (name: string, uid: string) => ({ apiVersion: 'v1', kind: 'Service', name, uid });
const tls = (name: string, metadata: object, data: Record<string, string> = {}) => ({
  metadata: { namespace: 'shop', name, ...metadata },
  type: 'kubernetes.io/tls',
  data: { 'tls.crt': 'b2xk', 'tls.key': 'b2xk', ...data },
});

test.each<[string, string, (uid: string) => object, Record<string, string>?]>([
  [
    'taken',
    'of service-ca',
    (uid) => ({
      annotations: { 'service.beta.openshift.io/originating-service-uid': uid },
      ownerReferences: [owner('taken', uid)],
    }),
  ],
  [
    'adopted',
    'that its owner gives away',
    () => ({
      annotations: { 'gatehouse.dev/serving-cert-adopt': 'adopted' },
    }),
  ],
  [
    'restored',
    'as Velero restores it',
    () => ({
      labels: { 'gatehouse.dev/serving-cert': 'true' },
      annotations: {
        [MARK]: 'restored',
        [`${MARK}-uid`]: 'earlier',
        'gatehouse.dev/serving-cert-secret': 'shop/restored',
      },
    }),
  ],
  [
    'shared',
    'with a key of another client',
    (uid) => ({
      labels: { 'gatehouse.dev/serving-cert': 'true' },
      annotations: { [MARK]: 'shared', [`${MARK}-uid`]: uid },
      ownerReferences: [{ ...owner('shared', uid), controller: true, blockOwnerDeletion: false }],
    }),
    { password: 'eA==' },
  ],
])(
  'A1: Service %s gets its cert in a Secret %s, which keeps its owners',
  async (name, _what, metadataOf, data) => {
    const plain = localService('shop', name, 443);
    const { metadata: { uid = '' } = {} } = await cluster.admin.create(services, plain);
    const before = await cluster.admin.create<SecretObject>(secrets, tls(name, metadataOf(uid), data));
    const prefix = name === 'taken' ? 'service.beta.openshift.io' : 'gatehouse.dev';
    const annotations = { [`${prefix}/serving-cert-secret-name`]: name };
    await cluster.admin.patchMerge(services, { namespace: 'shop', name }, { metadata: { annotations } });
    const isServed = (secret: SecretObject) => text(secret, 'tls.crt').includes('BEGIN CERTIFICATE');
    const secret = await cluster.see<SecretObject>(
      'the cert',
      secrets,
      { namespace: 'shop', name },
      isServed,
    );
    expect(secret.metadata?.ownerReferences).toEqual(before.metadata?.ownerReferences);
    expect(secret.metadata?.annotations?.[`${MARK}-uid`]).toBe(uid);
    const event = await seeEvent(cluster, 'shop', name, 'PartRefused');
    expect(event.message).toContain('deploy/components/delete-secrets');
  },
);

test('A1: once Gatehouse may delete Secrets, their owners are right', async () => {
  await cluster.applyFolder('components/delete-secrets');
  const ref = { namespace: 'shop', name: 'restored' };
  const isRepaired = (secret: SecretObject) => text(secret, 'tls.key').includes('PRIVATE KEY');
  const owners = async () => {
    await cluster.admin.patchMerge(secrets, ref, { data: { 'tls.key': 'b2xk' } });
    const { metadata } = await cluster.see<SecretObject>('the key', secrets, ref, isRepaired);
    return metadata?.ownerReferences?.map(({ name }) => name);
  };
  await expect.poll(owners, { interval: 500 }).toEqual(['restored']); // the API server learns of the role
});

test('A1: a ResourceQuota without room for the Secret is named, and the cert follows once there is room', async () => {
  const quotas = {
    group: '',
    version: 'v1',
    resource: 'resourcequotas',
    kind: 'ResourceQuota',
    namespaced: true,
  };
  const quota = { metadata: { namespace: 'full', name: 'few' }, spec: { hard: { 'count/secrets': '0' } } };
  await createNamespace(cluster, 'full');
  await cluster.admin.create(quotas, quota);
  await askForCertificate(cluster, 'full', 'web');
  const event = await seeEvent(cluster, 'full', 'web', 'WriteRefused');
  expect(event.message).toContain('Raise the ResourceQuota few.');

  await cluster.admin.patchMerge(quotas, quota.metadata, { spec: { hard: { 'count/secrets': '9' } } });
  await cluster.admin.patchMerge(
    services,
    { namespace: 'full', name: 'web' },
    { spec: { ports: [{ port: 8443 }] } },
  );
  await cluster.see('the cert', secrets, { namespace: 'full', name: 'web-tls' });
});
