// suite: shared-plane, sandbox: yes
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
      text(secret, 'ca.crt').includes('BEGIN CERTIFICATE') &&
      secret.metadata?.labels?.['gatehouse.dev/serving-cert'] === 'true' &&
      secret.metadata.ownerReferences?.length === 1,
    WITHIN_MS,
  );
  await expectAcceptedByClients(repaired);
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
