// suite: shared-plane, sandbox: long
/**
 * Hostile tenants who use every permission in their namespace to get certificates or bundles of others, or to bypass
 * checks.
 */
import { X509Certificate } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';

import type { KubeObject } from '../../src/json/kube-object.ts';
import { configMaps, namespaces, secrets, services } from '../../src/kube/well-known.ts';
import { applyBackstop } from '../support/backstop.ts';
import {
  createNamespace,
  localService,
  SERVERS,
  SYSTEM_NAMESPACE,
  type Cluster,
} from '../support/cluster.ts';
import { enforceExamples, startGatehouse } from '../support/gatehouse-cluster.ts';
import type { Replica } from '../support/gatehouse.ts';
import { seeEvent } from '../support/injection-objects.ts';
import { server, text, type SecretObject, inShop } from '../support/objects.ts';

const WISH = 'gatehouse.dev/serving-cert-secret-name';
const NAMES = 'gatehouse.dev/serving-cert-dns-names';

let cluster: Cluster;
let replica: Replica;

beforeAll(async () => {
  ({ cluster, replica } = await startGatehouse({
    prepare: async (started) => {
      await started.applyFolder('components/openshift-compat');
      await applyBackstop(started, ['openshift', 'certManager']);
    },
    settings: { compat: 'openshift,cert-manager', 'serving-cert-dns-suffixes': 'apps.example.com' },
  }));
  await enforceExamples(cluster); // creates the namespace shop
  await createNamespace(cluster, 'vault');
});

afterAll(() => cluster.stop());

const ask = (name: string, annotations: Record<string, string>) =>
  cluster.admin.create(services, localService('shop', name, 443, annotations));
const namesOf = (secret: SecretObject) => new X509Certificate(text(secret, 'tls.crt')).subjectAltName ?? '';
const seeCertificate = (name: string) =>
  cluster.see<SecretObject>(`a certificate in ${name}`, secrets, inShop(name), (secret) =>
    text(secret, 'tls.crt').includes('BEGIN'),
  );

const secretsOfShop = async () => {
  const { items } = await cluster.admin.listAll<SecretObject>(secrets, { namespace: 'shop' });
  return items.map(({ metadata }) => metadata?.name ?? '');
};

describe('a Service that requests what is not its own', () => {
  const cases = Object.entries<Record<string, string>>({
    'a path': { [WISH]: '../x' },
    'another namespace': { [WISH]: 'gatehouse-system/gatehouse-authority' },
    'upper case': { [WISH]: 'Front-TLS' },
    '300 characters': { [WISH]: 'x'.repeat(300) },
    '100,000 characters': { [WISH]: 'x'.repeat(100_000) },
    'a line break': { [WISH]: 'front\ntls' },
    'escapes of a terminal': { [WISH]: '\u001b[2J\u009b31m\u202efront' },
    'a list': { [WISH]: 'one,two' },
    'a wildcard': { [WISH]: '*' },
    nothing: { [WISH]: '' },
    'a longer suffix': { [NAMES]: 'evil-apps.example.com' },
    'the suffix in front': { [NAMES]: 'apps.example.com.evil.org' },
    'the suffix with a dot at its end': { [NAMES]: 'shop.apps.example.com.' },
    'the suffix in upper case': { [NAMES]: 'SHOP.APPS.EXAMPLE.COM' },
    'an empty label': { [NAMES]: '.apps.example.com' },
    'letters that look alike': { [NAMES]: 'shop.аpps.example.com' }, // the first letter is Cyrillic
    'letters beyond ASCII': { [NAMES]: 'bücher.apps.example.com' },
    'punycode outside of the suffix': { [NAMES]: 'xn--pps-5cd.example.com' },
    'a zero byte': { [NAMES]: 'evil.org\u0000.apps.example.com' },
    'a foreign name in addition to an allowed one': { [NAMES]: 'shop.apps.example.com,evil.org' },
    'every host': { [NAMES]: '*' },
    'every Service': { [NAMES]: '*.svc' },
    'a wildcard in the middle': { [NAMES]: 'a.*.apps.example.com' },
    'two wildcards': { [NAMES]: '*.*.apps.example.com' },
    'an IPv4 address': { [NAMES]: '10.0.0.1' },
    'an IPv6 address': { [NAMES]: '::1' },
    'this machine': { [NAMES]: 'localhost' },
    'the API server': { [NAMES]: 'kubernetes.default' },
    'the API server in full': { [NAMES]: 'kubernetes.default.svc.cluster.local' },
    Gatehouse: { [NAMES]: 'gatehouse.gatehouse-system.svc' },
    'a tail that looks like its own': { [NAMES]: 'evil-s0.shop.svc' },
    'the whole cluster': { [NAMES]: 'cluster.local' },
    '150 names': { [NAMES]: Array.from({ length: 150 }, (_, n) => `n${n}.apps.example.com`).join() },
    'names of 200 KB': { [NAMES]: 'x'.repeat(200_000) },
  }).map(([what, annotations], index) => ({ what, annotations, name: `s${index}` }));

  test('gets only an Event with one short line', async () => {
    const before = await secretsOfShop();
    await Promise.all(
      cases.map(({ name, annotations }) => ask(name, { [WISH]: `${name}-tls`, ...annotations })),
    );
    for (const { what, name } of cases) {
      const { message } = await seeEvent(cluster, 'shop', name, 'InvalidRequest');
      expect(Buffer.byteLength(message), what).toBeLessThanOrEqual(1_024);
      expect(message, what).not.toMatch(/[\p{Cc}\p{Zl}\p{Zp}\p{Bidi_Control}]/u);
    }
    expect(await secretsOfShop()).toEqual(before);
  });

  test('gets only a short answer annotation when it uses OpenShift’s annotation', async () => {
    const theirs = 'service.beta.openshift.io/serving-cert-secret-name';
    await ask('shift', { [theirs]: 'x'.repeat(120_000) });
    const answered = await cluster.see<KubeObject>(
      'the answer annotation of the Service',
      services,
      inShop('shift'),
      ({ metadata }) =>
        metadata?.annotations?.['service.beta.openshift.io/serving-cert-generation-error'] !== undefined,
    );
    const answers = Object.entries(answered.metadata?.annotations ?? {}).filter(([key]) => key !== theirs);
    for (const [, answer] of answers) expect(answer.length).toBeLessThan(1_024);
  });
});

describe('a Service has the name of another one', () => {
  test.each(['gatehouse', 'kubernetes'])(
    'a Service named %s gets a certificate for its own namespace',
    async (name) => {
      const own = { namespace: SYSTEM_NAMESPACE, name: 'gatehouse-serving' };
      const before = await cluster.admin.get<SecretObject>(secrets, own);
      await ask(name, { [WISH]: name === 'gatehouse' ? 'gatehouse-serving' : 'kubernetes-tls' });
      const secret = await seeCertificate(name === 'gatehouse' ? 'gatehouse-serving' : 'kubernetes-tls');
      expect(namesOf(secret).split(', ').toSorted()).toEqual(
        ['.shop.svc', '.shop.svc.cluster.local'].map((rest) => `DNS:${name}${rest}`),
      );
      expect(await cluster.admin.get<SecretObject>(secrets, own)).toEqual(before);
      expect((await replica.readyz()).ok).toBe(true);
    },
  );
});

describe('a Service names a Secret that a tenant has prepared', () => {
  const LABELS = { 'gatehouse.dev/serving-cert': 'true' };
  const FOREIGN = { data: { 'tls.crt': 'AAAA', 'tls.key': 'AAAA' }, type: 'kubernetes.io/tls' };
  const prepare = (name: string, metadata: object, rest: object = {}) =>
    cluster.admin.create<SecretObject>(secrets, {
      ...FOREIGN,
      ...rest,
      metadata: { ...inShop(name), ...metadata },
    });

  const marked = (service: string) => ({
    labels: LABELS,
    annotations: { 'gatehouse.dev/serving-cert-service': service },
  });
  test.each<[string, string, string, object, object]>([
    ['labelled', 'with the label of Gatehouse', 'ForeignSecret', { labels: LABELS }, {}],
    [
      'agreed',
      'that consents to another Service',
      'ForeignSecret',
      { annotations: { 'gatehouse.dev/serving-cert-adopt': 'other' } },
      {},
    ],
    ['opaque', 'of another type', 'SecretTypeConflict', marked('opaque'), { type: 'Opaque' }],
    ['locked', 'that is immutable', 'SecretImmutable', marked('locked'), { immutable: true }],
  ])(
    '%s: a Secret %s stays unchanged, and the Service gets the Event %s',
    async (name, _what, reason, metadata, rest) => {
      const made = await prepare(`${name}-tls`, metadata, rest);
      await ask(name, { [WISH]: `${name}-tls` });
      await seeEvent(cluster, 'shop', name, reason);
      expect(await cluster.admin.get(secrets, inShop(`${name}-tls`))).toEqual(made);
    },
  );

  test('owned: a Secret that claims to belong to the Service stays unchanged, and the Service gets the Event ForeignSecret', async () => {
    const { metadata } = await cluster.admin.create(services, localService('shop', 'owned', 443));
    const owner = { apiVersion: 'v1', kind: 'Service', name: 'owned', uid: metadata?.uid, controller: true };
    const made = await prepare('owned-tls', { labels: LABELS, ownerReferences: [owner] });
    const annotations = { [WISH]: 'owned-tls' };
    await cluster.admin.patchMerge(services, inShop('owned'), { metadata: { annotations } });
    await seeEvent(cluster, 'shop', 'owned', 'ForeignSecret');
    expect(await cluster.admin.get(secrets, inShop('owned-tls'))).toEqual(made);
  });
});

describe('a ConfigMap that requests the bundle of another namespace', () => {
  const FROM = 'gatehouse.dev/inject-cabundle-from';
  const CONSENT = { 'gatehouse.dev/allow-direct-injection': 'true' };
  const VICTIM = { namespace: 'vault', name: 'private' };

  test('gets nothing without the consent of the owner, and does not learn which objects exist', async () => {
    const serving = await cluster.see<SecretObject>('the bundle of Gatehouse', secrets, {
      namespace: SYSTEM_NAMESPACE,
      name: 'gatehouse-serving',
    });
    const ca = serving.data?.['ca.crt'] ?? '';
    await cluster.admin.create<SecretObject>(secrets, { metadata: VICTIM, data: { 'ca.crt': ca } });
    const bundle = { data: { 'ca.crt': text(serving, 'ca.crt') } };
    await cluster.admin.create(configMaps, { metadata: VICTIM, ...bundle });
    const wishes = {
      there: 'vault/private',
      absent: 'vault/nothing',
      spaces: ' vault/private ',
      map: 'configmap/vault/private',
      kind: 'secret/vault/private',
      system: 'gatehouse-system/gatehouse-authority',
      serving: 'gatehouse-system/gatehouse-serving',
      up: 'shop/../vault/private',
      upper: 'VAULT/private',
      star: 'vault/*',
      key: 'vault/private/tls.key',
    };
    for (const [name, from] of Object.entries(wishes))
      await cluster.admin.create(configMaps, {
        metadata: { ...inShop(name), annotations: { [FROM]: from, ...CONSENT } },
      });
    const said = new Map<string, string>();
    for (const name of Object.keys(wishes))
      said.set(name, (await seeEvent(cluster, 'shop', name, 'InvalidInjection')).message);
    for (const name of Object.keys(wishes)) {
      const map = await cluster.admin.get<KubeObject & { readonly data?: object }>(configMaps, inShop(name));
      expect(map?.data, name).toBeUndefined();
    }
    expect(said.get('there')?.replaceAll('vault/private', '')).toBe(
      said.get('absent')?.replaceAll('vault/nothing', ''),
    );
  });
});

describe('an object of a tenant', () => {
  const MARKS = [
    ...['ignore', 'exempt', 'skip', 'restore-window', 'opened-by', 'policy', 'handler', 'authority', 'epoch'],
    ...['rotate', 'distrust', 'new-authority', 'sweep-due', 'source', 'dev-url', 'allow-direct-injection'],
  ].map((name) => [`gatehouse.dev/${name}`, 'true'] as const);
  const bare = server('shop', 'marked', 'nowhere');

  test('with every label and annotation that Gatehouse knows or might know is checked like any other object', async () => {
    const marks = Object.fromEntries(MARKS);
    const velero = { 'velero.io/restore-name': 'x', 'velero.io/backup-name': 'x' };
    const metadata = { ...bare.metadata, annotations: marks, labels: { ...marks, ...velero } };
    await expect(cluster.admin.create(SERVERS, { ...bare, metadata })).rejects.toThrow(/spec\.datacenter/);
  });

  const label = (labels: Readonly<Record<string, string>>) =>
    cluster.admin.patchMerge(namespaces, { name: 'shop' }, { metadata: { labels } });

  test('is checked although labels of its Namespace request an exemption', async () => {
    const others = { 'control-plane': 'true', 'app.kubernetes.io/name': 'gatehouse' };
    await label({ ...Object.fromEntries(MARKS), ...others });
    await expect(cluster.admin.create(SERVERS, bare, { dryRun: true })).rejects.toThrow(/spec\.datacenter/);
  });

  test('is checked although its Namespace claims to be that of Gatehouse', async () => {
    await label({ 'kubernetes.io/metadata.name': SYSTEM_NAMESPACE });
    await expect(cluster.admin.create(SERVERS, bare, { dryRun: true })).rejects.toThrow(/spec\.datacenter/);
  });
});
