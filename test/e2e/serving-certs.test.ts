// suite: shared-plane, sandbox: yes
import { generateKeyPairSync } from 'node:crypto';
import { afterAll, beforeAll, expect, test } from 'vitest';

import { secrets, services } from '../../src/kube/well-known.ts';
import { checksOwners } from '../support/control-plane-site.ts';
import { createNamespace, localService, type Cluster } from '../support/cluster.ts';
import { startGatehouse } from '../support/gatehouse-cluster.ts';
import { seeEvent } from '../support/injection-objects.ts';
import { text, type SecretObject } from '../support/objects.ts';
import { nodeVerdict, opensslTrusts } from '../support/trust-verdicts.ts';

let cluster: Cluster;

beforeAll(async () => {
  ({ cluster } = await startGatehouse({ arrangement: 'both' }));
  await createNamespace(cluster, 'shop');
});

afterAll(() => cluster.stop());

const WITHIN_MS = 2_000;
const db = { namespace: 'shop', name: 'db-tls' };

const isWhole = (secret: SecretObject) =>
  text(secret, 'tls.crt').includes('BEGIN CERTIFICATE') && text(secret, 'tls.key') !== '';

const annotated = (name: string, secretName: string) =>
  localService('shop', name, 443, { 'gatehouse.dev/serving-cert-secret-name': secretName });

async function expectAcceptedByClients(secret: SecretObject): Promise<void> {
  const presented = { chain: text(secret, 'tls.crt'), privateKey: text(secret, 'tls.key') };
  const ca = text(secret, 'ca.crt');
  for (const host of ['db.shop.svc', 'db.shop.svc.cluster.local']) {
    expect(opensslTrusts(presented, ca, host)).toBe(true);
    expect(await nodeVerdict(presented, ca, host)).toBe('ok');
  }
  expect(await nodeVerdict(presented, ca, 'db.other.svc')).toBe('ERR_TLS_CERT_ALTNAME_INVALID');
}

test('an annotated Service gets its certificate within 2 s, and OpenSSL and Node accept it', async () => {
  await cluster.admin.create(services, annotated('db', 'db-tls'));
  const secret = await cluster.see<SecretObject>('the Secret', secrets, db, isWhole, WITHIN_MS);
  expect(secret.type).toBe('kubernetes.io/tls');
  expect(secret.metadata?.ownerReferences).toMatchObject([{ kind: 'Service', name: 'db', controller: true }]);
  await expectAcceptedByClients(secret);
});

test.each<[string, () => Promise<unknown>]>([
  ['is deleted (service-ca e2e serving-cert-secret-delete-data)', () => cluster.admin.delete(secrets, db)],
  [
    'is emptied',
    () => cluster.admin.patchMerge(secrets, db, { data: { 'tls.crt': '', 'tls.key': '', 'ca.crt': null } }),
  ],
  [
    'gets an invalid certificate (service-ca e2e serving-cert-secret-modify-bad-tlsCert)',
    () => cluster.admin.patchMerge(secrets, db, { data: { 'tls.crt': 'bW9kaWZpZWQ=' } }),
  ],
  ['gets another key', () => cluster.admin.patchMerge(secrets, db, { data: { 'tls.key': foreignKey() } })],
  [
    'gets a garbled bundle',
    () => cluster.admin.patchMerge(secrets, db, { data: { 'ca.crt': 'Z2FyYmFnZQ==' } }),
  ],
  [
    checksOwners ? 'loses its label' : 'loses its label and owner',
    () =>
      cluster.admin.patchMerge(secrets, db, {
        metadata: {
          labels: { 'gatehouse.dev/serving-cert': null },
          // The shipped roles do not permit to set it again.
          ...(checksOwners ? {} : { ownerReferences: null }),
        },
      }),
  ],
])('a Secret that %s is repaired within 2 s', async (_what, damage) => {
  const before = await cluster.admin.get<SecretObject>(secrets, db);
  await damage();
  const repaired = await cluster.see<SecretObject>(
    'the repaired Secret',
    secrets,
    db,
    (secret) =>
      secret.metadata?.resourceVersion !== before?.metadata?.resourceVersion &&
      isWhole(secret) &&
      text(secret, 'tls.key') !== Buffer.from(foreignKey(), 'base64').toString() &&
      text(secret, 'ca.crt').includes('BEGIN CERTIFICATE') &&
      secret.metadata?.labels?.['gatehouse.dev/serving-cert'] === 'true' &&
      secret.metadata.ownerReferences?.length === 1,
    WITHIN_MS,
  );
  await expectAcceptedByClients(repaired);
});

test('service-ca e2e serving-cert-secret-add-data: unlike in service-ca, data of others in the Secret stays', async () => {
  await cluster.admin.patchMerge(secrets, db, {
    metadata: { labels: { team: 'data' }, annotations: { note: 'ours' } },
    data: { 'keystore.p12': 'AAEC', 'tls.crt': '' },
  });
  const repaired = await cluster.see<SecretObject>('the repaired Secret', secrets, db, isWhole, WITHIN_MS);
  expect(repaired.data?.['keystore.p12']).toBe('AAEC');
  expect(repaired.metadata).toMatchObject({ labels: { team: 'data' }, annotations: { note: 'ours' } });
});

test('F1: a copy that a replicator makes, with labels and annotations, is left alone', async () => {
  const {
    metadata: { labels = {}, annotations = {} } = {},
    data,
    type = '',
  } = (await cluster.admin.get<SecretObject>(secrets, db)) ?? {};
  await createNamespace(cluster, 'gateway');
  const copies = [
    { namespace: 'gateway', name: 'shop-db-tls' },
    { namespace: 'shop', name: 'db-tls-copy' },
  ];
  const made = [];
  for (const metadata of copies)
    made.push(
      await cluster.admin.create<SecretObject>(secrets, {
        metadata: { ...metadata, labels, annotations },
        type,
        data: { ...data, 'chain.pem': 'eA==' },
      }),
    );
  // The leader has looked at all Secrets once it has repaired one that was changed later.
  await cluster.admin.patchMerge(secrets, db, { data: { 'tls.key': 'b2xk' } });
  const isRepaired = (secret: SecretObject) => isWhole(secret) && secret.data?.['tls.key'] !== 'b2xk';
  await cluster.see<SecretObject>('the repaired Secret', secrets, db, isRepaired, WITHIN_MS);
  for (const [index, copy] of copies.entries())
    expect(await cluster.admin.get(secrets, copy)).toEqual(made[index]);
});

test('a Secret with another owner is never changed, and an Event on the Service reports it', async () => {
  const theirs = { namespace: 'shop', name: 'theirs' };
  await cluster.admin.create<SecretObject>(secrets, {
    metadata: theirs,
    type: 'Opaque',
    data: { password: 'aHVudGVyMg==' },
  });
  const before = await cluster.admin.get(secrets, theirs);
  const service = await cluster.admin.create(services, annotated('greedy', 'theirs'));

  const event = await seeEvent(cluster, 'shop', 'greedy', 'ForeignSecret');
  expect(event).toMatchObject({
    type: 'Warning',
    involvedObject: { kind: 'Service', uid: service.metadata?.uid },
  });
  expect(event.message).toContain('theirs');
  expect(await cluster.admin.get(secrets, theirs)).toEqual(before);
});

test('an Event reports a Secret whose repair the API server refuses, and the repair succeeds when the cause is gone', async () => {
  const full = { namespace: 'shop', name: 'full-tls' };
  await cluster.admin.create(services, annotated('full', 'full-tls'));
  await cluster.see<SecretObject>('the Secret', secrets, full, isWhole, WITHIN_MS);
  const mebibyte = Buffer.alloc(2 ** 20).toString('base64');
  await cluster.admin.patchMerge(secrets, full, {
    data: { 'tls.crt': '', 'tls.key': '', 'ca.crt': null, theirs: mebibyte },
  });
  const { message } = await seeEvent(cluster, 'shop', 'full', 'WriteRefused');
  expect(message).toMatch(/^secret full-tls is not written: .*Correct the object.* 422 Invalid.*Too long/);
  await seeEvent(cluster, 'shop', 'full-tls', 'WriteRefused');
  await cluster.admin.patchMerge(secrets, full, { data: { theirs: null } });
  await cluster.see<SecretObject>('the repaired Secret', secrets, full, isWhole, WITHIN_MS);
});

let key: string | undefined;
/** An unknown private key, in base64. */
function foreignKey(): string {
  key ??= Buffer.from(
    generateKeyPairSync('ec', { namedCurve: 'prime256v1' }).privateKey.export({
      type: 'pkcs8',
      format: 'pem',
    }),
  ).toString('base64');
  return key;
}
