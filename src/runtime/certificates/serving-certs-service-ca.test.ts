/** Test cases from OpenShift's service-ca, and its annotations with --compat openshift. */
import { X509Certificate } from 'node:crypto';
import { beforeAll, beforeEach, describe, expect, test } from 'vitest';

import type { Authority } from '../../pki/authority/authority.ts';
import { after, DAY } from '../../pki/durations.ts';
import { base64, firstAuthority } from '../../../test/support/pki/fixtures.ts';
import type { Secret } from '../../pki/serving-certs/secret.ts';
import type { Service } from '../../pki/serving-certs/request.ts';
import { createWorld, type ServingCertsWorld } from '../../../test/support/runtime/serving-certs.ts';
import { WriteRefused } from '../write-refused.ts';

const start = new Date('2026-11-21T12:00:00Z');
const BETA = 'service.beta.openshift.io/';
const ALPHA = 'service.alpha.openshift.io/';
let authority: Authority;
let world: ServingCertsWorld;

beforeAll(async () => {
  authority = await firstAuthority(start);
});
beforeEach(() => {
  world = createWorld(authority, start);
  world.rules = { ...world.rules, openshift: true };
});

const service = (annotations: Record<string, string>, spec: Service['spec'] = {}): Service => ({
  metadata: { namespace: 'prod', name: 'db', uid: 'uid-of-db', annotations },
  spec,
});
const asking = (prefix: string, name = 'db-tls') => ({ [`${prefix}serving-cert-secret-name`]: name });
const leaf = () => {
  const pem = Buffer.from(world.secret('db-tls')?.data?.['tls.crt'] ?? '', 'base64').toString();
  return new X509Certificate(pem);
};
const annotationsOf = () => world.services.get('prod/db')?.metadata?.annotations ?? {};
const theirs = (annotations: Record<string, string>, data: Record<string, string> = {}): Secret => ({
  metadata: { namespace: 'prod', name: 'db-tls', annotations },
  type: 'kubernetes.io/tls',
  data,
});

describe('service-ca TestServiceServingCertControllerSync:', () => {
  test.each([
    ['basic controller flow', ALPHA, {}, 'DNS:db.prod.svc,'],
    ['basic controller flow, beta annotations', BETA, {}, 'DNS:db.prod.svc,'],
    ['basic controller flow, headless, beta annotations', BETA, { clusterIP: 'None' }, 'DNS:*.db.prod.svc'],
  ])('%s', async (_name, prefix, spec, names) => {
    world.add(service(asking(prefix), spec));
    await world.run('db');
    expect(leaf().subjectAltName).toContain(names);
    const signedBy = `gatehouse-serving-ca-${authority.generations[0]?.id ?? ''}`;
    expect(annotationsOf()).toMatchObject({
      [`${BETA}serving-cert-signed-by`]: signedBy,
      [`${ALPHA}serving-cert-signed-by`]: signedBy,
    });
    expect(world.secret('db-tls')?.metadata?.annotations).toMatchObject({
      [`${BETA}originating-service-uid`]: 'uid-of-db',
      [`${BETA}originating-service-name`]: 'db',
      [`${BETA}expiry`]: leaf().validToDate.toISOString().replace('.000', ''),
    });
    await world.run('db');
    expect([world.secrets.writes(), world.calls.annotated]).toEqual([1, 1]);
  });

  test.each([ALPHA, BETA])('secret already exists, is annotated but has no data (%s)', async (prefix) => {
    world.add(service(asking(prefix)));
    world.secrets.add(theirs({ [`${prefix}originating-service-uid`]: 'uid-of-db' }));
    await world.run('db');
    expect(leaf().subjectAltName).toContain('DNS:db.prod.svc');
    expect(world.secret('db-tls')?.metadata?.annotations).toMatchObject({
      'gatehouse.dev/serving-cert-service': 'db',
    });
  });

  test.each([ALPHA, BETA])('secret already exists for different svc UID (%s)', async (prefix) => {
    world.add(service(asking(prefix)));
    world.secrets.add(theirs({ [`${prefix}originating-service-uid`]: 'another' }, { 'tls.crt': 'eA==' }));
    await world.run('db');
    await world.run('db');
    expect(world.secret('db-tls')?.data).toEqual({ 'tls.crt': 'eA==' });
    expect(annotationsOf()).toMatchObject({
      [`${BETA}serving-cert-generation-error-num`]: '1',
      [`${BETA}serving-cert-generation-error`]: expect.stringContaining('belongs to another owner') as string,
    });
    world.secrets.remove('prod/db-tls');
    await world.run('db');
    expect(annotationsOf()).not.toHaveProperty([`${BETA}serving-cert-generation-error`]);
    expect(leaf().subjectAltName).toContain('DNS:db.prod.svc');
  });

  test.each([ALPHA, BETA])(
    'secret creation fails (%s): it is retried forever, and the Service gets no error (TestSyncCreateSecretErrorDoesntHotloop)',
    async (prefix) => {
      world.add(service(asking(prefix)));
      for (let attempt = 0; attempt < 12; attempt++) {
        world.secrets.interrupt('before');
        await expect(world.run('db')).rejects.toThrow('connection broke');
      }
      expect(world.calls.annotated).toBe(0); // a write to the Service would trigger a reconcile at once
      await world.run('db');
      expect(leaf().subjectAltName).toContain('DNS:db.prod.svc');
    },
  );

  test('secret creation fails, invalid secret name', async () => {
    world.add(service(asking(BETA, 'db_TLS')));
    await world.run('db');
    await world.run('db');
    expect(annotationsOf()[`${BETA}serving-cert-generation-error`]).toContain('"db_TLS"');
    expect([world.secrets.writes(), world.calls.annotated]).toEqual([0, 1]);
  });

  test.each([
    ['contains the right cert', {}],
    ['contains the right cert, headless', { clusterIP: 'None' }],
  ])('secret already %s', async (_name, spec) => {
    world.add(service(asking(BETA), spec));
    await world.run('db');
    const before = world.secret('db-tls');
    await world.run('db');
    expect(world.secret('db-tls')).toEqual(before);
  });

  test('contains cert data, but it is invalid', async () => {
    world.add(service(asking(BETA)));
    await world.run('db');
    world.secrets.edit('prod/db-tls', (secret) => ({
      ...secret,
      data: { 'tls.crt': base64('x'), 'tls.key': base64('y') },
    }));
    await world.run('db');
    expect(leaf().subjectAltName).toContain('DNS:db.prod.svc');
  });

  test('contains pre-headless cert data, update to headless', async () => {
    world.add(service(asking(BETA)));
    await world.run('db');
    world.add(service(asking(BETA), { clusterIP: 'None' }));
    await world.run('db');
    expect(leaf().subjectAltName).toContain('DNS:*.db.prod.svc');
  });

  test('secret points to a non-existent service (noop)', async () => {
    world.secrets.add(theirs({ [`${BETA}originating-service-name`]: 'db' }));
    await world.run('db');
    expect(world.secrets.writes()).toBe(0);
  });

  test('unannotated service in queue (noop)', async () => {
    world.add(service({}));
    await world.run('db');
    expect(world.secrets.writes() + world.calls.reads).toBe(0);
  });
});

describe.each([
  ['TestRequiresRegenerationOrReplace', ALPHA],
  ['TestRequiresRegenerationBetaAnnotation', BETA],
])('service-ca %s:', (_name, prefix) => {
  const edited = async (change: (annotations: Record<string, string>) => Record<string, string>) => {
    world.add(service(asking(prefix)));
    await world.run('db');
    const before = leaf().fingerprint256;
    world.secrets.edit('prod/db-tls', (secret) => ({
      ...secret,
      metadata: { ...secret.metadata, annotations: change({ ...secret.metadata?.annotations }) },
    }));
    await world.run('db');
    return before;
  };
  const expiry = (value: string | undefined) => (annotations: Record<string, string>) =>
    Object.fromEntries(
      Object.entries({ ...annotations, [`${BETA}expiry`]: value }).flatMap(([name, text]) =>
        text === undefined ? [] : [[name, text]],
      ),
    );

  test.each([
    ['no expiry', undefined],
    ['bad expiry', 'bad'],
    ['expired expiry', '2020-01-01T00:00:00Z'],
    ['distant expiry', '2099-01-01T00:00:00Z'],
  ])('%s: the certificate determines the expiry, and the annotation follows it', async (_name, value) => {
    const before = await edited(expiry(value));
    expect(leaf().fingerprint256).toBe(before);
    expect(world.secret('db-tls')?.metadata?.annotations?.[`${BETA}expiry`]).toBe(
      leaf().validToDate.toISOString().replace('.000', ''),
    );
  });

  test('distant expiry: a due cert is renewed whatever the annotation says', async () => {
    const before = await edited(expiry('2099-01-01T00:00:00Z'));
    world.now = after(start, 80 * DAY);
    await world.run('db');
    expect(leaf().fingerprint256).not.toBe(before);
  });

  test('service-uid-mismatch: the Secret is bound to the current Service, and the cert stays', async () => {
    const before = await edited((annotations) => ({
      ...annotations,
      [`${BETA}originating-service-uid`]: 'x',
    }));
    expect(leaf().fingerprint256).toBe(before);
    expect(world.secret('db-tls')?.metadata?.annotations).toMatchObject({
      [`${BETA}originating-service-uid`]: 'uid-of-db',
    });
  });

  test('missing ownerref: it is restored, and the cert stays', async () => {
    world.add(service(asking(prefix)));
    await world.run('db');
    const before = leaf().fingerprint256;
    world.secrets.edit('prod/db-tls', (secret) => ({
      ...secret,
      metadata: { ...secret.metadata, ownerReferences: [] },
    }));
    await world.run('db');
    expect(leaf().fingerprint256).toBe(before);
    expect(world.secret('db-tls')?.metadata?.ownerReferences).toHaveLength(1);
  });

  test.each([
    [
      'no service annotation',
      () => {
        world.add(service({}));
      },
    ],
    ['missing service', () => world.services.delete('prod/db')],
    [
      'service secret name mismatch',
      () => {
        world.add(service(asking(prefix, 'another')));
      },
    ],
  ])('%s: the Secret stays unchanged', async (_name, change) => {
    world.add(service(asking(prefix)));
    await world.run('db');
    const before = world.secret('db-tls');
    change();
    world.now = after(start, 80 * DAY);
    await world.run('db');
    expect(world.secret('db-tls')).toEqual(before);
  });
});

describe.each([false, true])('service-ca e2e (headless=%s):', (headless) => {
  beforeEach(async () => {
    world.add(service(asking(BETA), headless ? { clusterIP: 'None' } : {}));
    await world.run('db');
  });

  test('serving-cert-secret-modify-bad-tlsCert: the Secret is recreated', async () => {
    const before = leaf().fingerprint256;
    world.secrets.edit('prod/db-tls', (secret) => ({
      ...secret,
      data: { ...secret.data, 'tls.crt': base64('modified') },
    }));
    await world.run('db');
    expect(leaf().fingerprint256).not.toBe(before);
  });

  test('serving-cert-secret-add-data: unlike in service-ca, data of other clients stays, and so does the cert', async () => {
    const before = leaf().fingerprint256;
    world.secrets.edit('prod/db-tls', (secret) => ({
      ...secret,
      data: { ...secret.data, foo: base64('blah') },
    }));
    await world.run('db');
    expect(world.secret('db-tls')?.data?.foo).toBe(base64('blah'));
    expect(leaf().fingerprint256).toBe(before);
  });

  test('serving-cert-secret-delete-data: a deleted Secret is recreated', async () => {
    const before = leaf().fingerprint256;
    world.secrets.remove('prod/db-tls');
    await world.run('db');
    expect(leaf().fingerprint256).not.toBe(before);
  });
});

test('a Service that cannot be annotated still gets its cert, and gets the annotation once that is possible', async () => {
  world.add(service(asking(BETA)));
  const forbidden = { client: { patchMerge: () => Promise.reject(new WriteRefused('403 Forbidden')) } };
  await world.run('db', forbidden);
  expect(leaf().subjectAltName).toContain('DNS:db.prod.svc');
  expect((await world.run('db', forbidden)).kind).toBe('requeue');
  await world.run('db');
  expect(annotationsOf()).toHaveProperty([`${BETA}serving-cert-signed-by`]);
});

test('the Gatehouse annotation wins, and then no OpenShift annotation is written', async () => {
  world.add(service({ ...asking(BETA, 'theirs'), 'gatehouse.dev/serving-cert-secret-name': 'db-tls' }));
  await world.run('db');
  expect(leaf().subjectAltName).toContain('DNS:db.prod.svc');
  expect(world.secret('theirs')).toBeUndefined();
  expect(world.calls.annotated).toBe(0);
});
