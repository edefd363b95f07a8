import { X509Certificate } from 'node:crypto';
import { beforeAll, beforeEach, describe, expect, test } from 'vitest';

import type { Authority } from '../pki/authority.ts';
import { after, DAY, MINUTE } from '../pki/durations.ts';
import { base64, firstAuthority, rotated } from '../pki/fixtures.ts';
import { generateKeyPair, randomSerial } from '../pki/keys.ts';
import type { Secret } from '../pki/secret.ts';
import { servingCertRequest, type Service } from '../pki/serving-cert-request.ts';
import { createEvents, createObjects, NEVER, silent, untilDone, type Objects } from './fixtures.ts';
import { createServingCertsReconciler, type ServingCertsDeps } from './serving-certs.ts';

const start = new Date('2026-11-21T12:00:00Z');
const SERVICE = 'prod/db';
const SECRET = 'prod/db-tls';

let firstGeneration: Authority;
beforeAll(async () => {
  firstGeneration = await firstAuthority(start);
});

let authority: Authority | undefined;
let services: Map<string, Service>;
let secrets: Objects<Secret>;
let events: ReturnType<typeof createEvents>;
let now: Date;
let issued: number;
let liveReads: number;

beforeEach(() => {
  authority = firstGeneration;
  services = new Map([[SERVICE, service('db')]]);
  secrets = createObjects();
  events = createEvents();
  now = start;
  issued = 0;
  liveReads = 0;
});

function service(name: string, annotations: Record<string, string> = {}): Service {
  return {
    metadata: {
      namespace: 'prod',
      name,
      uid: `uid-of-${name}`,
      annotations: { 'gatehouse.dev/serving-cert-secret-name': 'db-tls', ...annotations },
    },
  };
}

/** With a watch that is never late, unless a test says otherwise. */
function reconciler(change: Partial<ServingCertsDeps> = {}) {
  return createServingCertsReconciler({
    service: (key) => services.get(key),
    request: (wanted) => servingCertRequest(wanted, 'cluster.local'),
    storedSecret: secrets.read,
    readSecret: (namespace, name) => {
      liveReads++;
      return Promise.resolve(secrets.read(`${namespace}/${name}`));
    },
    createSecret: secrets.create,
    replaceSecret: secrets.replace,
    authority: () => authority,
    generateKeyPair: (algorithm) => {
      issued++;
      return generateKeyPair(algorithm);
    },
    randomSerial,
    record: events.record,
    now: () => now,
    log: silent,
    ...change,
  });
}

const decoded = (secret: Secret | undefined, key: string) =>
  Buffer.from(secret?.data?.[key] ?? '', 'base64').toString();
const leafOf = (secret: Secret | undefined) => new X509Certificate(decoded(secret, 'tls.crt'));
const certificateOf = (secret: Secret | undefined) => secret?.data?.['tls.crt'];

/** The Secret as the first pass makes it. */
async function healthySecret(): Promise<Secret> {
  await reconciler()(SERVICE, NEVER);
  const secret = secrets.read(SECRET);
  if (secret === undefined) throw new Error('no Secret was made');
  return secret;
}

describe('a Service that asks', () => {
  test('gets a Secret with a serving cert, marked as its own', async () => {
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
    expect(events.reasons()).toEqual(['Issued']);
  });

  test('gets nothing written the second time, and no live read', async () => {
    await healthySecret();
    liveReads = 0;
    expect(await reconciler()(SERVICE, NEVER)).toMatchObject({ kind: 'requeue' });
    expect(secrets.writes()).toBe(1);
    expect(liveReads).toBe(0);
    expect(events.reasons()).toEqual(['Issued']);
  });

  test('waits while there is no authority', async () => {
    authority = undefined;
    expect(await reconciler()(SERVICE, NEVER)).toEqual({ kind: 'await-change' });
    expect(secrets.writes()).toBe(0);
  });

  test('wrongly is told so, and nothing is written', async () => {
    services.set(SERVICE, service('db', { 'gatehouse.dev/serving-cert-key-algorithm': 'DSA' }));
    expect(await reconciler()(SERVICE, NEVER)).toEqual({ kind: 'await-change' });
    expect(events.all).toMatchObject([
      {
        type: 'Warning',
        reason: 'InvalidRequest',
        regarding: { kind: 'Service', name: 'db', uid: 'uid-of-db' },
      },
    ]);
    expect(secrets.writes()).toBe(0);
  });
});

test.each<[string, () => unknown]>([
  ['is gone', () => services.delete(SERVICE)],
  ['asks for nothing', () => services.set(SERVICE, { metadata: { namespace: 'prod', name: 'db' } })],
])('nothing is done for a Service that %s', async (_what, change) => {
  change();
  expect(await reconciler()(SERVICE, NEVER)).toEqual({ kind: 'await-change' });
  expect(secrets.writes() + liveReads).toBe(0);
});

describe('a Secret is issued again when', () => {
  const withData = (secret: Secret, data: Record<string, string>): Secret => ({
    ...secret,
    data: { ...secret.data, ...data },
  });

  test('it was deleted', async () => {
    const before = await healthySecret();
    secrets.remove(SECRET);
    await reconciler()(SERVICE, NEVER);
    expect(certificateOf(secrets.read(SECRET))).not.toBe(certificateOf(before));
  });

  test.each<[string, string, (secret: Secret) => Secret]>([
    ['it was emptied', 'Missing', (secret) => withData(secret, { 'tls.crt': '', 'tls.key': '' })],
    ['its data is gone', 'Missing', ({ data, ...secret }) => (data === undefined ? secret : secret)],
    ['its certificate is garbage', 'Unreadable', (secret) => withData(secret, { 'tls.crt': base64('x') })],
  ])('%s', async (_when, reason, spoil) => {
    await healthySecret();
    secrets.edit(SECRET, spoil);
    await reconciler()(SERVICE, NEVER);
    expect(leafOf(secrets.read(SECRET)).subjectAltName).toContain('DNS:db.prod.svc');
    expect(events.all[1]).toMatchObject({
      reason: 'Issued',
      message: expect.stringContaining(reason) as string,
    });
    await reconciler()(SERVICE, NEVER);
    expect(issued).toBe(2);
  });

  test('its key was swapped', async () => {
    const before = await healthySecret();
    const { privateKey } = await generateKeyPair('ECDSA-P256');
    secrets.edit(SECRET, (secret) => withData(secret, { 'tls.key': base64(privateKey) }));
    await reconciler()(SERVICE, NEVER);
    const after = secrets.read(SECRET);
    expect(decoded(after, 'tls.key')).not.toBe(privateKey);
    expect(certificateOf(after)).not.toBe(certificateOf(before));
  });

  test('its authority has rotated', async () => {
    await healthySecret();
    authority = await rotated(firstGeneration, now);
    await reconciler()(SERVICE, NEVER);
    expect(events.all[1]?.message).toContain('SignerChanged');
    await reconciler()(SERVICE, NEVER);
    expect(issued).toBe(2);
  });

  test('its renewal is due, and not a moment earlier', async () => {
    await healthySecret();
    const result = await reconciler()(SERVICE, NEVER);
    const dueAt = result.kind === 'requeue' ? result.at : start;
    expect(dueAt > after(start, 45 * DAY)).toBe(true);
    expect(dueAt <= after(start, 60 * DAY)).toBe(true);

    now = after(dueAt, -1);
    await reconciler()(SERVICE, NEVER);
    expect(issued).toBe(1);

    now = dueAt;
    await reconciler()(SERVICE, NEVER);
    expect(events.reasons()).toEqual(['Issued', 'Renewed']);
    expect(leafOf(secrets.read(SECRET)).validToDate > after(dueAt, 89 * DAY)).toBe(true);
    await reconciler()(SERVICE, NEVER);
    expect(issued).toBe(2);
  });

  test('and what others put into it stays', async () => {
    await healthySecret();
    secrets.edit(SECRET, (secret) => ({
      ...withData(secret, { 'tls.crt': '', 'keystore.p12': 'AAAA' }),
      metadata: {
        ...secret.metadata,
        labels: { ...secret.metadata?.labels, team: 'a' },
        annotations: { ...secret.metadata?.annotations, note: 'b' },
      },
    }));
    await reconciler()(SERVICE, NEVER);
    expect(secrets.read(SECRET)).toMatchObject({
      metadata: { labels: { team: 'a' }, annotations: { note: 'b' } },
      data: { 'keystore.p12': 'AAAA', 'tls.crt': expect.stringMatching(/.{100}/) as string },
    });
  });
});

describe('a Secret is mended and keeps its certificate when', () => {
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
    secrets.edit(SECRET, spoil);
    await reconciler()(SERVICE, NEVER);
    expect(secrets.read(SECRET)).toEqual({
      ...healthy,
      metadata: { ...healthy.metadata, resourceVersion: expect.any(String) as string },
    });
    await reconciler()(SERVICE, NEVER);
    expect(secrets.writes()).toBe(2);
    expect(issued).toBe(1);
  });

  test('the Service was made again', async () => {
    const healthy = await healthySecret();
    const again = service('db');
    services.set(SERVICE, { ...again, metadata: { ...again.metadata, uid: 'another' } });
    await reconciler()(SERVICE, NEVER);
    expect(secrets.read(SECRET)?.metadata?.ownerReferences).toMatchObject([{ name: 'db', uid: 'another' }]);
    expect(certificateOf(secrets.read(SECRET))).toBe(certificateOf(healthy));
  });

  test('a label that the request wants is missing', async () => {
    await healthySecret();
    const wanting = reconciler({
      request: (wanted) => {
        const request = servingCertRequest(wanted, 'cluster.local');
        return request.kind === 'request' ? { ...request, labels: { own: 'true' } } : request;
      },
    });
    await wanting(SERVICE, NEVER);
    await wanting(SERVICE, NEVER);
    expect(secrets.read(SECRET)?.metadata?.labels).toMatchObject({ own: 'true' });
    expect(secrets.writes()).toBe(2);
    expect(issued).toBe(1);
  });
});

describe('a Secret is never written, and an Event says so, when it', () => {
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
    ['is nobody’s', 'ForeignSecret', marked({ metadata: { namespace: 'prod', name: 'db-tls' } })],
    [
      'is another Service’s',
      'ForeignSecret',
      marked({
        metadata: {
          namespace: 'prod',
          name: 'db-tls',
          annotations: { 'gatehouse.dev/serving-cert-service': 'web' },
        },
      }),
    ],
    [
      'was taken over by another controller',
      'ForeignSecret',
      marked({ metadata: { ...marked({}).metadata, ownerReferences: [controller] } }),
    ],
    ['has the wrong type', 'SecretTypeConflict', marked({ type: 'Opaque' })],
    ['is immutable', 'SecretImmutable', marked({ immutable: true })],
  ])('%s', async (_what, reason, secret) => {
    secrets.add(secret);
    const result = await reconciler()(SERVICE, NEVER);
    expect(result).toEqual({ kind: 'requeue', at: after(start, MINUTE) });
    expect(secrets.writes()).toBe(0);
    expect(issued).toBe(0);
    expect(events.all).toMatchObject([{ type: 'Warning', reason, regarding: { name: 'db' } }]);
  });

  test('was made immutable since, although nothing is wrong with it yet', async () => {
    await healthySecret();
    secrets.edit(SECRET, (secret) => ({ ...secret, immutable: true }));
    await reconciler()(SERVICE, NEVER);
    expect(secrets.writes()).toBe(1);
    expect(events.reasons()).toEqual(['Issued', 'SecretImmutable']);
  });

  test('was first asked for by another Service', async () => {
    await healthySecret();
    services.set('prod/web', service('web'));
    await reconciler()('prod/web', NEVER);
    expect(secrets.writes()).toBe(1);
    expect(events.reasons()).toEqual(['Issued', 'ForeignSecret']);
  });
});

describe('a store that is behind', () => {
  test.each<[string, () => Secret | undefined]>([
    ['holds nothing yet', () => undefined],
    ['still holds an emptied Secret', () => ({ ...secrets.read(SECRET), data: {} })],
    [
      'still holds a Secret without label',
      () => ({ ...secrets.read(SECRET), metadata: { namespace: 'prod', name: 'db-tls' } }),
    ],
  ])('and %s leads to a live read, and to no write', async (_how, stale) => {
    await healthySecret();
    liveReads = 0;
    const result = await reconciler({ storedSecret: stale })(SERVICE, NEVER);
    expect(liveReads).toBe(1);
    expect(secrets.writes()).toBe(1);
    expect(issued).toBe(1);
    expect(result).toMatchObject({ kind: 'requeue' });
  });

  test('and still holds an own Secret has nothing written to the foreign one of today', async () => {
    const own = await healthySecret();
    secrets.remove(SECRET);
    secrets.add({ metadata: { namespace: 'prod', name: 'db-tls' }, type: 'kubernetes.io/tls', data: {} });
    await reconciler({ storedSecret: () => ({ ...own, data: {} }) })(SERVICE, NEVER);
    expect(secrets.writes()).toBe(1);
    expect(events.reasons()).toEqual(['Issued', 'ForeignSecret']);
  });
});

describe('a write that someone overtook is a failure, to be tried again', () => {
  test('when the Secret has changed since it was read', async () => {
    await healthySecret();
    secrets.edit(SECRET, (secret) => ({ ...secret, data: {} }));
    const overtaken = reconciler({
      readSecret: () => {
        const live = secrets.read(SECRET);
        secrets.edit(SECRET, (secret) => ({ ...secret, data: { 'keystore.p12': 'AAAA' } }));
        return Promise.resolve(live);
      },
    });
    await expect(overtaken(SERVICE, NEVER)).rejects.toMatchObject({ code: 409 });
    await reconciler()(SERVICE, NEVER);
    expect(secrets.read(SECRET)?.data).toMatchObject({ 'keystore.p12': 'AAAA' });
    expect(leafOf(secrets.read(SECRET)).subjectAltName).toContain('DNS:db.prod.svc');
  });

  test('when two leaders create it at once, and one certificate is left', async () => {
    const outcomes = await Promise.allSettled([reconciler()(SERVICE, NEVER), reconciler()(SERVICE, NEVER)]);
    expect(outcomes.filter(({ status }) => status === 'rejected')).toMatchObject([{ reason: { code: 409 } }]);
    const winner = certificateOf(secrets.read(SECRET));
    await reconciler()(SERVICE, NEVER);
    expect(certificateOf(secrets.read(SECRET))).toBe(winner);
    expect(events.reasons()).toEqual(['Issued']);
  });
});

describe('killed around its write it converges:', () => {
  const spoil: Readonly<Record<string, () => void>> = {
    creation: () => {
      secrets.remove(SECRET);
    },
    'new issue': () => {
      secrets.edit(SECRET, (secret) => ({ ...secret, data: {} }));
    },
    mending: () => {
      secrets.edit(SECRET, (secret) => ({
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
    ['before', 'mending', 0],
    ['after', 'mending', 0],
  ] as const)('%s the %s, with %i keys made', async (when, write, keys) => {
    await healthySecret();
    spoil[write]?.();
    issued = 0;
    secrets.interrupt(when);
    await expect(reconciler()(SERVICE, NEVER)).rejects.toThrow('connection broke');
    await untilDone(reconciler(), SERVICE);

    expect(issued).toBe(keys);
    expect(leafOf(secrets.read(SECRET)).subjectAltName).toContain('DNS:db.prod.svc');
    const settled = secrets.writes();
    await reconciler()(SERVICE, NEVER);
    expect(secrets.writes()).toBe(settled);
    expect(secrets.read(SECRET)?.metadata?.ownerReferences).toHaveLength(1);
  });
});
