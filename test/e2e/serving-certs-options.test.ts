// suite: shared-plane, sandbox: long
/** Options of Services for their serving certs, and limits that operators set. */
import { execFileSync } from 'node:child_process';
import { X509Certificate } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { connect, createServer } from 'node:tls';
import { afterAll, beforeAll, expect, test } from 'vitest';

import type { KubeObject } from '../../src/json/kube-object.ts';
import { secrets, services } from '../../src/kube/well-known.ts';
import { applyBackstop } from '../support/backstop.ts';
import { createNamespace, localService, type Cluster } from '../support/cluster.ts';
import { startGatehouse } from '../support/gatehouse-cluster.ts';
import type { Replica } from '../support/gatehouse.ts';
import { seeEvent } from '../support/injection-objects.ts';
import { text, type SecretObject } from '../support/objects.ts';
import { nodeVerdict, opensslTrusts } from '../support/trust-verdicts.ts';
import { fileFolder } from '../support/folder.ts';

let cluster: Cluster;
let replica: Replica;
const folder = fileFolder('options');

beforeAll(async () => {
  ({ cluster, replica } = await startGatehouse({
    prepare: async (started) => {
      await started.applyFolder('components/openshift-compat');
      await applyBackstop(started, ['openshift']);
    },
    settings: {
      compat: 'openshift',
      'serving-cert-dns-suffixes': 'apps.example.com',
      'serving-cert-namespace-suffixes': 'shop=shop.example.com,pay=pay.apps.example.com',
      'serving-cert-cluster-ips': 'true',
    },
  }));
  await createNamespace(cluster, 'shop');
});

afterAll(() => cluster.stop());

const asked = (name: string, secretName: string, annotations: Record<string, string> = {}) =>
  localService('shop', name, 443, { 'gatehouse.dev/serving-cert-secret-name': secretName, ...annotations });
const named = (name: string) => ({ namespace: 'shop', name });
const seeSecret = (name: string, accept: (secret: SecretObject) => boolean = () => true) =>
  cluster.see<SecretObject>(`secret ${name}`, secrets, named(name), (secret) => {
    return text(secret, 'tls.crt') !== '' && accept(secret);
  });
const namesOf = (secret: SecretObject) => new X509Certificate(text(secret, 'tls.crt')).subjectAltName ?? '';

interface ServiceObject extends KubeObject {
  readonly spec?: { readonly clusterIP?: string; readonly ports?: readonly { readonly port: number }[] };
}

const headless = (service: KubeObject): KubeObject => {
  const spec = { clusterIP: 'None', ports: [{ port: 443 }] };
  return { ...service, spec } as KubeObject; // a Service has a spec, which KubeObject does not name
};

const presentedBy = (secret: SecretObject) => ({
  chain: text(secret, 'tls.crt'),
  privateKey: text(secret, 'tls.key'),
});

test('service-ca e2e headless-stateful-serving-cert-secret-delete-data: the certificate of a headless Service is valid for its pods, even after the Secret is deleted', async () => {
  await cluster.admin.create(services, headless(asked('nodes', 'nodes-tls')));
  await cluster.admin.create(
    services,
    headless(asked('sets', 'sets-tls', { 'gatehouse.dev/serving-cert-pod-names': 'sets:2' })),
  );
  const expectAccepted = async (secret: SecretObject, host: string) => {
    expect(opensslTrusts(presentedBy(secret), text(secret, 'ca.crt'), host)).toBe(true);
    expect(await nodeVerdict(presentedBy(secret), text(secret, 'ca.crt'), host)).toBe('ok');
  };
  const [nodes, sets] = [await seeSecret('nodes-tls'), await seeSecret('sets-tls')];
  await expectAccepted(nodes, 'any-7.nodes.shop.svc');
  await expectAccepted(sets, 'sets-1.sets.shop.svc.cluster.local');
  const another = await nodeVerdict(presentedBy(sets), text(sets, 'ca.crt'), 'sets-2.sets.shop.svc');
  expect(another).toBe('ERR_TLS_CERT_ALTNAME_INVALID');

  await cluster.admin.delete(secrets, named('sets-tls'));
  const again = await seeSecret('sets-tls', ({ metadata }) => metadata?.uid !== sets.metadata?.uid);
  await expectAccepted(again, 'sets-0.sets.shop.svc');
});

test('Services get additional names that the operator allows, and an Event reports other names', async () => {
  const names = 'gatehouse.dev/serving-cert-dns-names';
  await cluster.admin.create(services, asked('front', 'front-tls', { [names]: 'shop.apps.example.com' }));
  expect(namesOf(await seeSecret('front-tls'))).toContain('DNS:shop.apps.example.com');
  await cluster.admin.create(services, asked('thief', 'thief-tls', { [names]: 'front.shop.svc' }));
  expect((await seeEvent(cluster, 'shop', 'thief', 'InvalidRequest')).message).toContain(
    "cluster's own domain",
  );
  expect(await cluster.admin.get(secrets, named('thief-tls'))).toBeUndefined();
});

test('only the Services of a namespace get names in its domains', async () => {
  const names = 'gatehouse.dev/serving-cert-dns-names';
  await cluster.admin.create(services, asked('owner', 'owner-tls', { [names]: '*.shop.example.com' }));
  expect(namesOf(await seeSecret('owner-tls'))).toContain('DNS:*.shop.example.com');
  for (const name of ['www.pay.apps.example.com', '*.apps.example.com']) {
    const service = `grabs-${name.length}`;
    await cluster.admin.create(services, asked(service, `${service}-tls`, { [names]: name }));
    expect((await seeEvent(cluster, 'shop', service, 'InvalidRequest')).message).toContain(
      'belongs to another namespace',
    );
    expect(await cluster.admin.get(secrets, named(`${service}-tls`))).toBeUndefined();
  }
});

test('a certificate has the cluster IP of its Service, and an Event reports a headless Service that asks for it', async () => {
  const wish = { 'gatehouse.dev/serving-cert-cluster-ips': 'true' };
  const { metadata = {} } = asked('fixed', 'fixed-tls', wish);
  const created = await cluster.admin.create<ServiceObject>(services, {
    metadata,
    spec: { ports: [{ port: 443 }] },
  });
  const address = created.spec?.clusterIP ?? '';
  expect(address).toMatch(/^[\d.]+$/);
  const secret = await seeSecret('fixed-tls');
  expect(namesOf(secret)).toContain(`IP Address:${address}`);
  expect(new X509Certificate(text(secret, 'tls.crt')).checkIP(address)).toBe(address);
  await cluster.admin.create(services, headless(asked('floating', 'floating-tls', wish)));
  expect((await seeEvent(cluster, 'shop', 'floating', 'InvalidRequest')).message).toContain(
    'lacks a cluster IP',
  );
});

test('two Services talk by mutual TLS, and a serving certificate is no client certificate', async () => {
  const both = asked('mutual', 'mutual-tls', {
    'gatehouse.dev/client-cert-secret-name': 'mutual-client-tls',
  });
  await cluster.admin.create(services, both);
  const [server, client] = [await seeSecret('mutual-tls'), await seeSecret('mutual-client-tls')];
  expect(await mutualTls(server, client)).toContain('DNS:mutual.shop.svc');
  await expect(mutualTls(server, server)).rejects.toThrow();
  await cluster.admin.delete(secrets, named('mutual-client-tls'));
  const again = await seeSecret(
    'mutual-client-tls',
    ({ metadata }) => metadata?.uid !== client.metadata?.uid,
  );
  expect(await mutualTls(server, again)).toContain('DNS:mutual.shop.svc');
});

/** The names that a server sees in the certificate of a client. */
async function mutualTls(server: SecretObject, client: SecretObject): Promise<string> {
  const material = (secret: SecretObject) => ({
    cert: text(secret, 'tls.crt'),
    key: text(secret, 'tls.key'),
    ca: text(secret, 'ca.crt'),
  });
  return await new Promise((resolve, reject) => {
    const listener = createServer({ ...material(server), requestCert: true }, (socket) => {
      resolve(socket.getPeerCertificate().subjectaltname ?? '');
      socket.end();
      listener.close();
    });
    listener.on('tlsClientError', (error) => {
      reject(error);
      listener.close();
    });
    listener.listen(0, '127.0.0.1', () => {
      const { port } = listener.address() as AddressInfo;
      const socket = connect({ ...material(client), port, servername: 'mutual.shop.svc' });
      socket.on('error', () => undefined); // the server judges the client
    });
  });
}

test('key stores are in the Secret, follow their inputs, and are not rewritten unnecessarily', async () => {
  await cluster.admin.create<SecretObject>(secrets, {
    metadata: named('stores'),
    data: { password: Buffer.from('s3cret').toString('base64') },
  });
  const wish = {
    'gatehouse.dev/serving-cert-outputs': 'pkcs12,combined-pem',
    'gatehouse.dev/serving-cert-keystore-password': 'stores',
  };
  await cluster.admin.create(services, asked('java', 'java-tls', wish));
  const secret = await seeSecret('java-tls');
  const path = join(folder, 'keystore.p12');
  writeFileSync(path, Buffer.from(secret.data?.['keystore.p12'] ?? '', 'base64'));
  const openssl = ['pkcs12', '-in', path, '-passin', 'pass:s3cret', '-nodes'];
  expect(execFileSync('openssl', openssl, { encoding: 'utf8' })).toContain('BEGIN PRIVATE KEY');
  expect(text(secret, 'tls-combined.pem')).toBe(text(secret, 'tls.key') + text(secret, 'tls.crt'));

  await cluster.admin.patchMerge(services, named('java'), { metadata: { labels: { touched: 'true' } } });
  await cluster.admin.patchMerge(secrets, named('java-tls'), { data: { 'keystore.p12': 'AAAA' } });
  const repaired = await seeSecret('java-tls', ({ data }) => data?.['keystore.p12'] !== 'AAAA');
  expect(repaired.data).toEqual(secret.data);
});

test('L3: the older of two Services with one Secret gets it; the younger gets an Event, and takes over when the older is deleted', async () => {
  await cluster.admin.create(services, asked('elder', 'shared-tls'));
  await seeSecret('shared-tls');
  await new Promise((resolve) => setTimeout(resolve, 1_100)); // ages of Services have a resolution of one second
  await cluster.admin.create(services, asked('younger', 'shared-tls'));
  expect((await seeEvent(cluster, 'shop', 'younger', 'SecretTaken')).message).toContain('elder');
  expect(namesOf(await seeSecret('shared-tls'))).toContain('DNS:elder.shop.svc');
  await cluster.admin.delete(services, named('elder'));
  await seeSecret('shared-tls', (secret) => namesOf(secret).includes('DNS:younger.shop.svc'));
});

test.each([false, true])(
  'service-ca e2e serving-cert-annotation (headless=%s): OpenShift’s annotation is supported and gets an answer annotation',
  async (isHeadless) => {
    const name = isHeadless ? 'moved-headless' : 'moved';
    const annotation = { 'service.beta.openshift.io/serving-cert-secret-name': `${name}-tls` };
    const service = localService('shop', name, 443, annotation);
    await cluster.admin.create(services, isHeadless ? headless(service) : service);
    const secret = await seeSecret(`${name}-tls`);
    expect(namesOf(secret).includes('DNS:*.')).toBe(isHeadless);
    expect(secret.metadata?.annotations).toMatchObject({
      'service.beta.openshift.io/originating-service-name': name,
    });
    await cluster.see('the answer', services, named(name), ({ metadata }) => {
      return metadata?.annotations?.['service.beta.openshift.io/serving-cert-signed-by'] !== undefined;
    });
  },
);

test('service-ca e2e metrics/collection, service-ca-metrics: the metrics for users exist', async () => {
  const metrics = await replica.metrics();
  expect(metrics).toMatch(/gatehouse_serving_leaf_generation\{generation="[0-9a-f]{8}"\} \d+/);
  expect(metrics).toMatch(/gatehouse_serving_leaf_not_after_seconds_bucket\{le="7776000"\} [1-9]/);
  expect(metrics).toMatch(/gatehouse_issue_total\{result="issued",reason="Missing"\} [1-9]/);
  expect(metrics).toMatch(/gatehouse_issue_total\{result="refused",reason="InvalidRequest"\} [1-9]/);
});
