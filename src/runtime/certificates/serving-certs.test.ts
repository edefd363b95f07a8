import { X509Certificate } from 'node:crypto';
import { beforeAll, beforeEach, describe, expect, test } from 'vitest';

import { createAuthority, type Authority } from '../../pki/authority/authority.ts';
import { after, DAY, MINUTE } from '../../pki/durations.ts';
import { base64, firstAuthority, rotated } from '../../../test/support/pki/fixtures.ts';
import { generateKeyPair, randomSerial } from '../../pki/x509/keys.ts';
import { toStoredSecret, type StoredSecret } from '../../pki/serving-certs/facts.ts';
import type { Secret } from '../../pki/serving-certs/secret.ts';
import { servingCertRequest } from '../../pki/serving-certs/request.ts';
import { NEVER, untilDone } from '../../../test/support/runtime/fixtures.ts';
import {
  createWorld,
  serviceNamed,
  type ServingCertsWorld,
} from '../../../test/support/runtime/serving-certs.ts';
import { WriteRefused } from '../write-refused.ts';

const start = new Date('2026-11-21T12:00:00Z');
const SERVICE = 'prod/db';
const SECRET = 'prod/db-tls';

let firstGeneration: Authority;
beforeAll(async () => {
  firstGeneration = await firstAuthority(start);
});

let world: ServingCertsWorld;

beforeEach(() => {
  world = createWorld(firstGeneration, start);
  world.add(serviceNamed('db'));
});

const decoded = (secret: Secret | undefined, key: string) =>
  Buffer.from(secret?.data?.[key] ?? '', 'base64').toString();
const leafOf = (secret: Secret | undefined) => new X509Certificate(decoded(secret, 'tls.crt'));
const certificateOf = (secret: Secret | undefined) => secret?.data?.['tls.crt'];

/** The Secret after the first reconcile. */
async function healthySecret(): Promise<Secret> {
  await world.reconciler()(SERVICE, NEVER);
  const secret = world.secrets.read(SECRET);
  if (secret === undefined) throw new Error('expected a Secret');
  return secret;
}

describe('a Service that requests a cert', () => {
  test('a cert loses its cluster IPs if the operator no longer allows them, and is still renewed', async () => {
    const service = serviceNamed('db', { 'gatehouse.dev/serving-cert-cluster-ips': 'true' });
    world.add({ ...service, spec: { clusterIP: '10.96.7.8' } });
    world.rules = { ...world.rules, clusterIPs: true };
    await world.run('db');
    const names = () =>
      new X509Certificate(Buffer.from(world.secret('db-tls')?.data?.['tls.crt'] ?? '', 'base64'))
        .subjectAltName;
    expect(names()).toContain('10.96.7.8');
    world.rules = { ...world.rules, clusterIPs: false };
    await world.run('db');
    await world.run('db');
    expect(names()).toBe('DNS:db.prod.svc, DNS:db.prod.svc.cluster.local');
    expect(world.events.reasons().filter((reason) => reason === 'AddressesIgnored')).toHaveLength(1);
    world.now = after(start, 80 * DAY);
    await world.run('db');
    expect(world.observed.at(-1)).toBe('issued RenewalDue');
  });

  test('is renewed without a default short name that belongs to another namespace since its issue', async () => {
    world.rules = { ...world.rules, shortNames: true };
    await world.run('db');
    expect(leafOf(world.secret('db-tls')).checkHost('db.prod')).toBe('db.prod');
    world.rules = { ...world.rules, namespaceSuffixes: new Map([['db.prod', 'shop']]) };
    world.now = after(start, 80 * DAY);
    await world.run('db');
    await world.run('db');
    const { subjectAltName, validToDate } = leafOf(world.secret('db-tls'));
    expect(subjectAltName).toBe('DNS:db, DNS:db.prod.svc, DNS:db.prod.svc.cluster.local');
    expect(validToDate > after(start, 160 * DAY)).toBe(true);
    expect(world.events.reasons().filter((reason) => reason === 'ShortNamesOmitted')).toHaveLength(1);
  });

  test('gets a Secret with a serving cert and the label of Gatehouse', async () => {
    const secret = await healthySecret();
    expect(secret).toMatchObject({
      type: 'kubernetes.io/tls',
      metadata: {
        labels: { 'gatehouse.dev/serving-cert': 'true' },
        annotations: { 'gatehouse.dev/serving-cert-service': 'db' },
        ownerReferences: [{ kind: 'Service', name: 'db', uid: 'uid-of-db', controller: true }],
      },
    });
    expect(leafOf(secret).subjectAltName).toContain('DNS:db.prod.svc');
    const root = new X509Certificate(decoded(secret, 'ca.crt'));
    expect(leafOf(secret).verify(root.publicKey)).toBe(true);
    expect(world.events.reasons()).toEqual(['Issued']);
  });

  test('causes no second write and no live read', async () => {
    await healthySecret();
    world.calls.reads = 0;
    expect(await world.reconciler()(SERVICE, NEVER)).toMatchObject({ kind: 'requeue' });
    expect(world.secrets.writes()).toBe(1);
    expect(world.calls.reads).toBe(0);
    expect(world.events.reasons()).toEqual(['Issued']);
  });

  test('waits until an authority exists', async () => {
    world.authority = undefined;
    expect(await world.reconciler()(SERVICE, NEVER)).toEqual({ kind: 'await-change' });
    expect(world.secrets.writes()).toBe(0);
  });

  test('with an invalid request gets an Event, and nothing is written', async () => {
    world.add(serviceNamed('db', { 'gatehouse.dev/serving-cert-key-algorithm': 'DSA' }));
    expect(await world.reconciler()(SERVICE, NEVER)).toMatchObject({ kind: 'requeue' });
    expect(world.events.all).toMatchObject([
      {
        type: 'Warning',
        reason: 'InvalidRequest',
        regarding: { kind: 'Service', name: 'db', uid: 'uid-of-db' },
      },
    ]);
    expect(world.secrets.writes()).toBe(0);
  });
});

test.each<[string, () => unknown]>([
  ['is gone', () => world.services.delete(SERVICE)],
  ['requests nothing', () => world.services.set(SERVICE, { metadata: { namespace: 'prod', name: 'db' } })],
])('a Service that %s causes no work', async (_what, change) => {
  change();
  expect(await world.reconciler()(SERVICE, NEVER)).toEqual({ kind: 'gone' });
  expect(world.secrets.writes() + world.calls.reads).toBe(0);
});

describe('a cert is reissued when', () => {
  const withData = (secret: Secret, data: Record<string, string>): Secret => ({
    ...secret,
    data: { ...secret.data, ...data },
  });

  test('it was deleted', async () => {
    const before = await healthySecret();
    world.secrets.remove(SECRET);
    await world.reconciler()(SERVICE, NEVER);
    expect(certificateOf(world.secrets.read(SECRET))).not.toBe(certificateOf(before));
  });

  test.each<[string, string, (secret: Secret) => Secret]>([
    ['it was emptied', 'Missing', (secret) => withData(secret, { 'tls.crt': '', 'tls.key': '' })],
    ['its data is missing', 'Missing', ({ data, ...secret }) => (data === undefined ? secret : secret)],
    ['its certificate is garbage', 'Unreadable', (secret) => withData(secret, { 'tls.crt': base64('x') })],
  ])('%s', async (_when, reason, spoil) => {
    await healthySecret();
    world.secrets.edit(SECRET, spoil);
    await world.reconciler()(SERVICE, NEVER);
    expect(leafOf(world.secrets.read(SECRET)).subjectAltName).toContain('DNS:db.prod.svc');
    expect(world.events.all[1]).toMatchObject({
      reason: 'Issued',
      message: expect.stringContaining(reason) as string,
    });
    await world.reconciler()(SERVICE, NEVER);
    expect(world.calls.keys).toBe(2);
  });

  test('its key was swapped', async () => {
    const before = await healthySecret();
    const { privateKey } = await generateKeyPair('ECDSA-P256');
    world.secrets.edit(SECRET, (secret) => withData(secret, { 'tls.key': base64(privateKey) }));
    await world.reconciler()(SERVICE, NEVER);
    const after = world.secrets.read(SECRET);
    expect(decoded(after, 'tls.key')).not.toBe(privateKey);
    expect(certificateOf(after)).not.toBe(certificateOf(before));
  });

  test('its authority has rotated', async () => {
    await healthySecret();
    world.authority = await rotated(firstGeneration, world.now);
    await world.reconciler()(SERVICE, NEVER);
    expect(world.observed).toEqual(['issued Missing', 'issued SignerChanged']);
    expect(world.events.reasons()).toEqual(['Issued']); // a rotation must not record ten thousand Events
    await world.reconciler()(SERVICE, NEVER);
    expect(world.calls.keys).toBe(2);
  });

  test('its renewal is due, and not before', async () => {
    await healthySecret();
    const result = await world.reconciler()(SERVICE, NEVER);
    const dueAt = result.kind === 'requeue' ? result.at : start;
    expect(dueAt > after(start, 45 * DAY)).toBe(true);
    expect(dueAt <= after(start, 60 * DAY)).toBe(true);

    world.now = after(dueAt, -1);
    await world.reconciler()(SERVICE, NEVER);
    expect(world.calls.keys).toBe(1);

    world.now = dueAt;
    await world.reconciler()(SERVICE, NEVER);
    expect(world.events.reasons()).toEqual(['Issued', 'Renewed']);
    expect(leafOf(world.secrets.read(SECRET)).validToDate > after(dueAt, 89 * DAY)).toBe(true);
    await world.reconciler()(SERVICE, NEVER);
    expect(world.calls.keys).toBe(2);
  });

  test('its cluster IPs changed; a CA that may not sign them is reported, and the cert stays', async () => {
    const asking = (...clusterIPs: readonly string[]) => ({
      ...serviceNamed('db', { 'gatehouse.dev/serving-cert-cluster-ips': 'true' }),
      spec: { clusterIPs, clusterIP: clusterIPs[0] ?? '' },
    });
    world.rules = { ...world.rules, clusterIPs: true };
    for (const address of ['10.96.0.7', '10.96.0.8']) {
      world.add(asking(address));
      await world.reconciler()(SERVICE, NEVER);
      expect(leafOf(world.secrets.read(SECRET)).subjectAltName).toContain(`IP Address:${address}`);
    }
    expect(world.observed).toEqual(['issued Missing', 'issued AddressesChanged']);

    const before = world.secrets.read(SECRET);
    world.authority = await createAuthority({
      keyPair: await generateKeyPair('ECDSA-P256'),
      serial: randomSerial(),
      now: world.now,
      domains: ['svc', 'svc.cluster.local'],
    });
    await world.reconciler()(SERVICE, NEVER);
    expect(world.secrets.read(SECRET)).toEqual(before);
    expect(world.observed.at(-1)).toBe('refused NameNotPermitted');
    expect(world.events.all.at(-1)).toMatchObject({
      type: 'Warning',
      reason: 'NameNotPermitted',
      message: expect.stringContaining(
        'remove the annotation gatehouse.dev/serving-cert-cluster-ips',
      ) as string,
    });
  });

  test('the Service moves its renewal to the past; the Secret says when the cert is renewed', async () => {
    await healthySecret();
    world.now = after(start, 20 * DAY);
    const moved = async (renewAfter: string, pacer = { take: () => true, forget: () => undefined }) => {
      world.add(serviceNamed('db', { 'gatehouse.dev/serving-cert-renew-after': renewAfter }));
      await world.reconciler({ pacer })(SERVICE, NEVER);
      const annotations = world.secrets.read(SECRET)?.metadata?.annotations;
      return annotations?.['gatehouse.dev/serving-cert-renew-after'];
    };
    const waiting = { take: () => false, forget: () => undefined };
    expect(await moved('80%', waiting)).toBeUndefined(); // a changed setting moves thousands at once
    expect(await moved('80%')).toBe('80%');
    expect(world.calls.keys).toBe(1);
    expect(await moved('20%')).toBe('20%');
    expect(world.observed).toEqual(['issued Missing', 'issued RenewalDue']);
    expect(await moved('66%')).toBeUndefined();
    expect(world.secrets.writes()).toBe(4);
  });

  test('a reissue keeps the data of other clients', async () => {
    await healthySecret();
    world.secrets.edit(SECRET, (secret) => ({
      ...withData(secret, { 'tls.crt': '', 'keystore.p12': 'AAAA' }),
      metadata: {
        ...secret.metadata,
        labels: { ...secret.metadata?.labels, team: 'a' },
        annotations: { ...secret.metadata?.annotations, note: 'b' },
      },
    }));
    await world.reconciler()(SERVICE, NEVER);
    expect(world.secrets.read(SECRET)).toMatchObject({
      metadata: { labels: { team: 'a' }, annotations: { note: 'b' } },
      data: { 'keystore.p12': 'AAAA', 'tls.crt': expect.stringMatching(/.{100}/) as string },
    });
  });
});

describe('a Secret is repaired and keeps its certificate when', () => {
  test.each<[string, (secret: Secret) => Secret]>([
    ['its label was removed', (secret) => ({ ...secret, metadata: { ...secret.metadata, labels: {} } })],
    [
      'its owner was removed',
      (secret) => ({ ...secret, metadata: { ...secret.metadata, ownerReferences: [] } }),
    ],
    [
      'its CA bundle was edited',
      (secret) => ({ ...secret, data: { ...secret.data, 'ca.crt': base64('forged') } }),
    ],
  ])('%s', async (_when, spoil) => {
    const healthy = await healthySecret();
    world.secrets.edit(SECRET, spoil);
    await world.reconciler()(SERVICE, NEVER);
    expect(world.secrets.read(SECRET)).toEqual({
      ...healthy,
      metadata: { ...healthy.metadata, resourceVersion: expect.any(String) as string },
    });
    await world.reconciler()(SERVICE, NEVER);
    expect(world.secrets.writes()).toBe(2);
    expect(world.observed).toEqual(['issued Missing']);
  });

  test('the Service was recreated', async () => {
    const healthy = await healthySecret();
    const again = serviceNamed('db');
    world.services.set(SERVICE, { ...again, metadata: { ...again.metadata, uid: 'another' } });
    await world.reconciler()(SERVICE, NEVER);
    expect(world.secrets.read(SECRET)?.metadata?.ownerReferences).toMatchObject([
      { name: 'db', uid: 'another' },
    ]);
    expect(certificateOf(world.secrets.read(SECRET))).toBe(certificateOf(healthy));
  });

  test('a requested label is missing', async () => {
    await healthySecret();
    const wanting = world.reconciler({
      requests: {
        request: (wanted, purpose) => {
          const request = servingCertRequest(wanted, world.rules, purpose);
          return request.kind === 'request' ? { ...request, labels: { own: 'true' } } : request;
        },
      },
    });
    await wanting(SERVICE, NEVER);
    await wanting(SERVICE, NEVER);
    expect(world.secrets.read(SECRET)?.metadata?.labels).toMatchObject({ own: 'true' });
    expect(world.secrets.writes()).toBe(2);
    expect(world.calls.keys).toBe(1);
  });
});

describe('a Secret is never written, and an Event reports it, when it', () => {
  const marked = (secret: Partial<Secret>): Secret => ({
    metadata: {
      namespace: 'prod',
      name: 'db-tls',
      annotations: { 'gatehouse.dev/serving-cert-service': 'db' },
    },
    type: 'kubernetes.io/tls',
    ...secret,
  });
  const controller = { apiVersion: 'example.com/v1', kind: 'Vault', name: 'v', uid: 'u', controller: true };

  test.each<[string, string, Secret]>([
    ['has no owner', 'ForeignSecret', marked({ metadata: { namespace: 'prod', name: 'db-tls' } })],
    [
      'was taken over by another controller',
      'ForeignSecret',
      marked({ metadata: { ...marked({}).metadata, ownerReferences: [controller] } }),
    ],
    ['has the wrong type', 'SecretTypeConflict', marked({ type: 'Opaque' })],
    ['is immutable', 'SecretImmutable', marked({ immutable: true })],
  ])('%s', async (_what, reason, secret) => {
    world.secrets.add(secret);
    const before = world.secrets.read(SECRET);
    const result = await world.run('db');
    await world.run('db');
    expect(result).toEqual({ kind: 'requeue', at: after(start, MINUTE) });
    expect(world.secrets.read(SECRET)).toEqual(before);
    expect(world.secrets.writes()).toBe(0);
    expect(world.calls.keys).toBeLessThanOrEqual(1); // for the single create attempt
    expect(world.events.all).toMatchObject([{ type: 'Warning', reason, regarding: { name: 'db' } }]);
  });

  test('was made immutable later, although its content is still valid', async () => {
    await healthySecret();
    world.secrets.edit(SECRET, (secret) => ({ ...secret, immutable: true }));
    await world.reconciler()(SERVICE, NEVER);
    expect(world.secrets.writes()).toBe(1);
    expect(world.events.reasons()).toEqual(['Issued', 'SecretImmutable']);
  });

  test('was first requested by another Service', async () => {
    await healthySecret();
    world.add(serviceNamed('web'));
    await world.reconciler()('prod/web', NEVER);
    expect(world.secrets.writes()).toBe(1);
    expect(world.events.reasons()).toEqual(['Issued', 'SecretTaken']);
  });
});

describe('a stale store', () => {
  test.each<[string, () => StoredSecret | undefined]>([
    ['holds nothing yet', () => undefined],
    ['still holds an emptied Secret', () => toStoredSecret({ ...world.secrets.read(SECRET), data: {} })],
    [
      'still holds a Secret without the label',
      () =>
        toStoredSecret({ ...world.secrets.read(SECRET), metadata: { namespace: 'prod', name: 'db-tls' } }),
    ],
  ])('that %s leads to a live read and no write', async (_how, stale) => {
    await healthySecret();
    world.calls.reads = 0;
    const result = await world.reconciler({ stores: { secret: stale } })(SERVICE, NEVER);
    expect(world.calls.reads).toBe(1);
    expect(world.secrets.writes()).toBe(1);
    expect(world.observed).toEqual(['issued Missing']);
    expect(result).toMatchObject({ kind: 'requeue' });
  });

  test('that still holds an own Secret causes no write to the current foreign one', async () => {
    const own = await healthySecret();
    world.secrets.remove(SECRET);
    world.secrets.add({
      metadata: { namespace: 'prod', name: 'db-tls' },
      type: 'kubernetes.io/tls',
      data: {},
    });
    await world.reconciler({ stores: { secret: () => ({ ...own, data: {} }) } })(SERVICE, NEVER);
    expect(world.secrets.writes()).toBe(1);
    expect(world.events.reasons()).toEqual(['Issued', 'ForeignSecret']);
  });
});

describe('a write conflict', () => {
  test('is retried when the Secret has changed since the read', async () => {
    await healthySecret();
    world.secrets.edit(SECRET, (secret) => ({ ...secret, data: {} }));
    const overtaken = world.reconciler({
      client: {
        get: () => {
          const live = world.secrets.read(SECRET);
          world.secrets.edit(SECRET, (secret) => ({ ...secret, data: { 'keystore.p12': 'AAAA' } }));
          return Promise.resolve(live as never);
        },
      },
    });
    await expect(overtaken(SERVICE, NEVER)).rejects.toMatchObject({ code: 409 });
    await world.reconciler()(SERVICE, NEVER);
    expect(world.secrets.read(SECRET)?.data).toMatchObject({ 'keystore.p12': 'AAAA' });
    expect(leafOf(world.secrets.read(SECRET)).subjectAltName).toContain('DNS:db.prod.svc');
  });

  test('between two creations leaves one certificate', async () => {
    await Promise.all([world.reconciler()(SERVICE, NEVER), world.reconciler()(SERVICE, NEVER)]);
    const winner = certificateOf(world.secrets.read(SECRET));
    await world.reconciler()(SERVICE, NEVER);
    expect(certificateOf(world.secrets.read(SECRET))).toBe(winner);
    expect(world.events.reasons()).toEqual(['Issued']);
  });
});

describe('a write that the API server refuses', () => {
  const refusal = '422 Invalid: data: Too long. Correct the object.';
  const refused = () => Promise.reject(new WriteRefused(refusal));

  test('is reported on the Service with the remedy, and retried every minute', async () => {
    const reconcile = world.reconciler({ client: { create: refused } });
    const run = () => reconcile(SERVICE, NEVER);
    await expect(run()).rejects.toThrow(refusal);
    expect(world.events.reasons()).toEqual([]); // not confirmed: the object may have changed
    world.now = after(start, 5_000);
    expect(await run()).toEqual({ kind: 'requeue', at: after(world.now, 60_000) });
    await run();
    expect(world.events.all).toMatchObject([
      {
        regarding: { kind: 'Service', name: 'db' },
        type: 'Warning',
        reason: 'WriteRefused',
        message: `secret db-tls is not written: ${refusal}`,
      },
    ]);
    expect(world.observed).toEqual(['failed Error', 'refused WriteRefused', 'refused WriteRefused']);
  });

  test('is also reported on the Secret if it is an update, and the Secret stays', async () => {
    await world.run('db');
    world.secrets.edit(SECRET, (secret) => ({ ...secret, data: {} }));
    const before = world.secret('db-tls');
    const reconcile = world.reconciler({ client: { replace: refused } });
    await expect(reconcile(SERVICE, NEVER)).rejects.toThrow(refusal);
    world.now = after(start, 5_000);
    await reconcile(SERVICE, NEVER);
    expect(world.secret('db-tls')).toEqual(before);
    expect(world.events.all.slice(1)).toMatchObject([
      { reason: 'WriteRefused', regarding: { kind: 'Service', name: 'db' } },
      { reason: 'WriteRefused', regarding: { kind: 'Secret', namespace: 'prod', name: 'db-tls' } },
    ]);
  });
});

describe('after a kill around its write it converges:', () => {
  const spoil: Readonly<Record<string, () => void>> = {
    creation: () => {
      world.secrets.remove(SECRET);
    },
    'new issue': () => {
      world.secrets.edit(SECRET, (secret) => ({ ...secret, data: {} }));
    },
    repair: () => {
      world.secrets.edit(SECRET, (secret) => ({
        ...secret,
        metadata: { ...secret.metadata, ownerReferences: [] },
      }));
    },
  };

  test.each([
    ['before', 'creation', 2],
    ['after', 'creation', 1],
    ['before', 'new issue', 2],
    ['after', 'new issue', 1],
    ['before', 'repair', 0],
    ['after', 'repair', 0],
  ] as const)('%s the %s, with %i keys generated', async (when, write, keys) => {
    await healthySecret();
    spoil[write]?.();
    world.calls.keys = 0;
    world.secrets.interrupt(when);
    await expect(world.reconciler()(SERVICE, NEVER)).rejects.toThrow('connection broke');
    await untilDone(world.reconciler(), SERVICE);

    expect(world.calls.keys).toBe(keys);
    expect(leafOf(world.secrets.read(SECRET)).subjectAltName).toContain('DNS:db.prod.svc');
    const settled = world.secrets.writes();
    await world.reconciler()(SERVICE, NEVER);
    expect(world.secrets.writes()).toBe(settled);
    expect(world.secrets.read(SECRET)?.metadata?.ownerReferences).toHaveLength(1);
  });
});
