import { X509Certificate } from 'node:crypto';
import { beforeEach, describe, expect, test } from 'vitest';
import { createAuthority } from '../../pki/authority/authority.ts';
import { after, DAY, MINUTE } from '../../pki/durations.ts';
import { base64, firstAuthority } from '../../../test/support/pki/fixtures.ts';
import { generateKeyPair, randomSerial } from '../../pki/x509/keys.ts';
import { toStoredSecret, type StoredSecret } from '../../pki/serving-certs/facts.ts';
import type { RequestRules } from '../../pki/serving-certs/request.ts';
import { ApiError } from '../../kube/api-error.ts';
import { containing, NEVER } from '../../../test/support/runtime/fixtures.ts';
import {
  createWorld,
  serviceNamed,
  type Change,
  type ServingCertsWorld,
} from '../../../test/support/runtime/serving-certs.ts';

const start = new Date('2026-11-21T12:00:00Z');
const SERVICE = 'prod/db';
const SECRET = 'prod/db-tls';
const CLUSTER_IPS = 'gatehouse.dev/serving-cert-cluster-ips';

const firstGeneration = await firstAuthority(start);
let world: ServingCertsWorld;

beforeEach(() => {
  world = createWorld(firstGeneration, start);
  world.add(serviceNamed('db'));
});

/** As the first reconcile of a new leader. */
const reconcile = (change?: Change) => world.reconciler(change)(SERVICE, NEVER);
const secret = () => world.secrets.read(SECRET);
const spoil = (patch: object) => world.secrets.patch(SECRET, patch);
const remove = () => world.secrets.remove(SECRET);

describe('a Service that requests a cert', () => {
  test('Knative TestReconcile: secret does not exist: unlike in Knative, it is created, with the label of Gatehouse', async () => {
    await reconcile();
    expect(secret()).toMatchObject({
      type: 'kubernetes.io/tls',
      metadata: {
        labels: { 'gatehouse.dev/serving-cert': 'true' },
        annotations: { 'gatehouse.dev/serving-cert-service': 'db' },
        ownerReferences: [{ kind: 'Service', name: 'db', uid: 'uid-of-db', controller: true }],
      },
    });
    expect(world.leaf().subjectAltName).toContain('DNS:db.prod.svc');
    const root = new X509Certificate(world.file('ca.crt'));
    expect(world.leaf().verify(root.publicKey)).toBe(true);
    expect(world.events.reasons()).toEqual(['Issued']);
  });

  test("Knative TestReconcile: well formed secret exists, cert-manager TestDynamicSource_FailingSign: don't rotate root: causes no second write and no live read", async () => {
    await reconcile();
    world.calls.reads = 0;
    expect(await reconcile()).toMatchObject({ kind: 'requeue' });
    expect([world.secrets.writes(), world.calls.reads, world.calls.keys]).toEqual([1, 0, 1]);
    expect(world.events.reasons()).toEqual(['Issued']);
  });

  test('cert-manager TestDynamicSource_FailingSign: certificate authority stopped unexpectedly: keeps its cert, and waits for an authority', async () => {
    world.authority = undefined;
    expect(await reconcile()).toEqual({ kind: 'await-change' });
    expect(world.secrets.writes()).toBe(0);
    world.authority = firstGeneration;
    await reconcile();
    const before = secret();
    world.authority = undefined;
    expect(await reconcile()).toEqual({ kind: 'await-change' });
    expect(secret()).toEqual(before);
  });

  const addressed = () =>
    world.add({ ...serviceNamed('db', { [CLUSTER_IPS]: 'true' }), spec: { clusterIP: '10.96.7.8' } });
  const db = 'DNS:db.prod.svc, DNS:db.prod.svc.cluster.local';

  test.each<[string, string, Partial<RequestRules>, Partial<RequestRules>, string, string]>([
    [
      'its cluster IPs if the operator stops allowing them',
      'IP Address:10.96.7.8',
      { clusterIPs: true },
      { clusterIPs: false },
      db,
      'AddressesIgnored',
    ],
    [
      'a default short name that belongs to another namespace since its issue',
      'DNS:db.prod,',
      { shortNames: true },
      { namespaceSuffixes: new Map([['db.prod', 'shop']]) },
      `DNS:db, ${db}`,
      'ShortNamesOmitted',
    ],
  ])('loses %s, and is still renewed', async (_what, lost, permitted, forbidden, names, reason) => {
    if (permitted.clusterIPs === true) addressed();
    world.rules = { ...world.rules, ...permitted };
    await world.run('db');
    expect(`${world.leaf().subjectAltName ?? ''},`).toContain(lost);
    world.rules = { ...world.rules, ...forbidden };
    await world.run('db');
    await world.run('db');
    expect(world.leaf().subjectAltName).toBe(names);
    expect(world.events.reasons().filter((one) => one === reason)).toHaveLength(1);
    world.now = after(start, 80 * DAY);
    await world.run('db');
    expect(world.observed.at(-1)).toBe('issued RenewalDue');
    expect(world.leaf().subjectAltName).toBe(names);
    expect(world.leaf().validToDate > after(start, 160 * DAY)).toBe(true);
  });
});

test.each([
  ['is gone', false],
  ['requests nothing (service-ca TestServiceServingCertControllerSync: unannotated service in queue)', true],
])('a Service that %s causes no work', async (_what, exists) => {
  world.services.remove(SERVICE);
  if (exists) world.add({ metadata: { namespace: 'prod', name: 'db' } });
  expect(await reconcile()).toEqual({ kind: 'gone' });
  expect(world.secrets.writes() + world.calls.reads).toBe(0);
});

const { privateKey: otherKey } = await generateKeyPair('ECDSA-P256');
const garbage = { data: { 'tls.crt': base64('x'), 'tls.key': base64('y') } };
const emptied = { data: { 'tls.crt': '', 'tls.key': '' } };
const edited = { data: { 'tls.crt': base64('modified') } };
const UNREADABLE = 'Unreadable';

describe('a cert is reissued when', () => {
  test.each<[string, string, object | undefined]>([
    ['service-ca e2e serving-cert-secret-delete-data: it was deleted', 'Missing', undefined],
    ['it was emptied (Knative TestReconcile: missing server cert)', 'Missing', emptied],
    [
      'service-ca TestServiceServingCertControllerSync: contains cert data, but it is invalid',
      UNREADABLE,
      garbage,
    ],
    ['service-ca e2e serving-cert-secret-modify-bad-tlsCert: its certificate was edited', UNREADABLE, edited],
    ['Knative TestReconcile: missing server key', UNREADABLE, { data: { 'tls.key': '' } }],
    ['its key was swapped', 'KeyMismatch', { data: { 'tls.key': base64(otherKey) } }],
  ])('%s', async (_when, reason, patch) => {
    await reconcile();
    const before = secret()?.data;
    if (patch === undefined) remove();
    else spoil(patch);
    const spoiled = secret()?.data;
    await reconcile();
    for (const file of ['tls.crt', 'tls.key']) {
      expect(secret()?.data?.[file]).not.toBe(before?.[file]);
      expect(secret()?.data?.[file]).not.toBe(spoiled?.[file]);
    }
    expect(world.leaf().subjectAltName).toContain('DNS:db.prod.svc');
    expect(world.events.all[1]).toMatchObject({ reason: 'Issued', message: containing(reason) });
    await reconcile();
    expect(world.calls.keys).toBe(2);
  });

  test('cert-manager TestDynamicSource_FailingSign: expire leaf, Knative TestReconcile: certificate expiring soon, certificate not expiring soon: its renewal is due, and not before', async () => {
    await reconcile();
    const result = await reconcile();
    const dueAt = result.kind === 'requeue' ? result.at : start;
    expect(dueAt > after(start, 45 * DAY)).toBe(true);
    expect(dueAt <= after(start, 60 * DAY)).toBe(true);

    world.now = after(dueAt, -1);
    await reconcile();
    expect(world.calls.keys).toBe(1);

    world.now = dueAt;
    await reconcile();
    expect(world.events.reasons()).toEqual(['Issued', 'Renewed']);
    expect(world.leaf().validToDate > after(dueAt, 89 * DAY)).toBe(true);
    await reconcile();
    expect(world.calls.keys).toBe(2);
  });

  test('its cluster IPs changed; a CA that cannot sign them is reported, and the cert is kept', async () => {
    world.rules = { ...world.rules, clusterIPs: true };
    for (const clusterIP of ['10.96.0.7', '10.96.0.8']) {
      const spec = { clusterIPs: [clusterIP], clusterIP };
      world.add({ ...serviceNamed('db', { [CLUSTER_IPS]: 'true' }), spec });
      await reconcile();
      expect(world.leaf().subjectAltName).toContain(`IP Address:${clusterIP}`);
    }
    expect(world.observed).toEqual(['issued Missing', 'issued AddressesChanged']);

    const before = secret();
    world.authority = await createAuthority({
      keyPair: await generateKeyPair('ECDSA-P256'),
      serial: randomSerial(),
      now: world.now,
      domains: ['svc', 'svc.cluster.local'],
    });
    await reconcile();
    expect(secret()).toEqual(before);
    expect(world.observed.at(-1)).toBe('refused NameNotPermitted');
    const message = containing(`remove the annotation ${CLUSTER_IPS}`);
    expect(world.events.all.at(-1)).toMatchObject({ type: 'Warning', reason: 'NameNotPermitted', message });
  });

  test('the Service moves its renewal to the past; the Secret says when the cert is renewed', async () => {
    await reconcile();
    world.now = after(start, 20 * DAY);
    const moved = async (renewAfter: string, takes = true) => {
      world.add(serviceNamed('db', { 'gatehouse.dev/serving-cert-renew-after': renewAfter }));
      await reconcile({ pacer: { take: () => takes, forget: () => undefined } });
      return secret()?.metadata?.annotations?.['gatehouse.dev/serving-cert-renew-after'];
    };
    expect(await moved('80%', false)).toBeUndefined(); // a changed setting moves thousands together
    expect(await moved('80%')).toBe('80%');
    expect(world.calls.keys).toBe(1);
    expect(await moved('20%')).toBe('20%');
    expect(world.observed).toEqual(['issued Missing', 'issued RenewalDue']);
    expect(await moved('66%')).toBeUndefined();
    expect(world.secrets.writes()).toBe(4);
  });
});

test('cert-manager TestDynamicSource_FailingSign: sign function returns error (retry, then success); Knative TestReconcileMakeSecretFailure: would return error, but not called, malformed secret, missing server key: nothing is written, and the failure is retried', async () => {
  const broken = { generateKeyPair: () => Promise.reject(new Error('no entropy')) } satisfies Change;
  await reconcile();
  await expect(reconcile(broken)).resolves.toMatchObject({ kind: 'requeue' }); // works without the key
  spoil(garbage);
  const before = secret();
  for (let attempt = 0; attempt < 3; attempt++) await expect(reconcile(broken)).rejects.toThrow('no entropy');
  expect(secret()).toEqual(before);
  expect(world.observed.at(-1)).toBe('failed Error');
  await reconcile();
  expect(world.leaf().subjectAltName).toContain('DNS:db.prod.svc');
});

test.each<[string, object]>([
  ['its label was removed', { metadata: { labels: null } }],
  [
    'service-ca TestRequiresRegenerationOrReplace, TestRequiresRegenerationBetaAnnotation: missing ownerref',
    { metadata: { ownerReferences: [] } },
  ],
  ['its CA bundle was edited', { data: { 'ca.crt': base64('forged') } }],
  ['Knative TestReconcile: missing CA cert', { data: { 'ca.crt': '' } }],
])('a Secret is repaired and keeps its certificate when %s', async (_when, patch) => {
  await reconcile();
  const healthy = secret();
  spoil(patch);
  await reconcile();
  const resourceVersion = expect.any(String) as string;
  expect(secret()).toEqual({ ...healthy, metadata: { ...healthy?.metadata, resourceVersion } });
  await reconcile();
  expect(world.secrets.writes()).toBe(2);
  expect(world.observed).toEqual(['issued Missing']);
});

const controller = { apiVersion: 'example.com/v1', kind: 'Vault', name: 'v', uid: 'u', controller: true };

test.each<[string, string, object]>([
  ['lacks an owner', 'ForeignSecret', { metadata: { annotations: null } }],
  ['belongs to another controller', 'ForeignSecret', { metadata: { ownerReferences: [controller] } }],
  ['has the wrong type', 'SecretTypeConflict', { type: 'Opaque' }],
  ['is immutable', 'SecretImmutable', { immutable: true }],
])('a Secret is never written, and an Event reports it, when it %s', async (_what, reason, patch) => {
  const annotations = { 'gatehouse.dev/serving-cert-service': 'db' };
  const metadata = { namespace: 'prod', name: 'db-tls', annotations };
  world.secrets.add({ metadata, type: 'kubernetes.io/tls' });
  spoil(patch);
  const before = secret();
  const result = await world.run('db');
  await world.run('db');
  expect(result).toEqual({ kind: 'requeue', at: after(start, MINUTE) });
  expect(secret()).toEqual(before);
  expect(world.secrets.writes()).toBe(0);
  expect(world.calls.keys).toBeLessThanOrEqual(1); // for the single create attempt
  expect(world.events.all).toMatchObject([{ type: 'Warning', reason, regarding: { name: 'db' } }]);
});

describe('a stale store', () => {
  test.each<[string, () => StoredSecret | undefined]>([
    ['holds nothing yet', () => undefined],
    ['still holds an emptied Secret', () => toStoredSecret({ ...secret(), data: {} })],
  ])('that %s leads to a live read and no write', async (_how, stale) => {
    await reconcile();
    world.calls.reads = 0;
    expect(await reconcile({ stores: { secret: stale } })).toMatchObject({ kind: 'requeue' });
    expect([world.calls.reads, world.secrets.writes()]).toEqual([1, 1]);
    expect(world.observed).toEqual(['issued Missing']);
  });

  test('that still holds an own Secret causes no write to the current foreign one', async () => {
    await reconcile();
    const own = toStoredSecret({ ...secret(), data: {} });
    const metadata = { namespace: 'prod', name: 'db-tls' };
    world.secrets.add({ metadata, type: 'kubernetes.io/tls', data: {} });
    await reconcile({ stores: { secret: () => own } });
    expect(world.secrets.writes()).toBe(1);
    expect(world.events.reasons()).toEqual(['Issued', 'ForeignSecret']);
  });
});

test('a write conflict is retried when the Secret has changed since the read', async () => {
  await reconcile();
  spoil({ data: null });
  const get = () => {
    const live = secret();
    spoil({ data: { 'keystore.p12': 'AAAA' } });
    return Promise.resolve(live as never);
  };
  await expect(reconcile({ client: { get } })).rejects.toMatchObject({ code: 409 });
  await reconcile();
  expect(secret()?.data).toMatchObject({ 'keystore.p12': 'AAAA' });
  expect(world.leaf().subjectAltName).toContain('DNS:db.prod.svc');
});

const failure = (code: number, ...reasons: readonly string[]) => {
  const details = { causes: reasons.map((reason) => ({ reason })) };
  return new ApiError({ method: 'POST', path: '/' }, { code, status: { details } });
};

const ending = failure(403, 'Other', 'NamespaceTerminating');
test.each([
  ['because its namespace ends waits without an Event', ending, true],
  ['because its namespace is gone waits without an Event', failure(404), true],
  ['for another reason is retried', failure(403, 'Other'), false],
  ['because the connection breaks is retried', new Error('the connection broke'), false],
])('a creation that the API server refuses %s', async (_why, error, waits) => {
  const outcome = reconcile({ client: { create: () => Promise.reject(error) } });
  if (waits) expect(await outcome).toEqual({ kind: 'requeue', at: after(start, MINUTE) });
  else await expect(outcome).rejects.toThrow(error.message);
  expect(world.observed).toEqual([waits ? 'refused NamespaceTerminating' : 'failed Error']);
  expect(world.events.all).toEqual([]);
});

const reissue = () => spoil({ data: null });
const repair = () => spoil({ metadata: { ownerReferences: [] } });

test.each([
  ['before', 'creation', remove, 2],
  ['after', 'creation', remove, 1],
  ['before', 'new issue', reissue, 2],
  ['after', 'new issue', reissue, 1],
  ['before', 'repair', repair, 0],
  ['after', 'repair', repair, 0],
] as const)('after a kill around its write it converges: %s the %s', async (when, _write, change, keys) => {
  await reconcile();
  change();
  world.calls.keys = 0;
  world.secrets.interrupt(when);
  await expect(reconcile()).rejects.toThrow('connection broke');
  await reconcile();

  expect(world.calls.keys).toBe(keys);
  const settled = world.secrets.writes();
  await reconcile();
  expect(world.secrets.writes()).toBe(settled);
  expect(secret()?.metadata?.ownerReferences).toHaveLength(1);
});
