/**
 * Test cases from OpenShift's service-ca, and its annotations with --compat openshift. Its cases that do not depend on
 * annotations are in serving-certs.test.ts.
 */
import { beforeEach, describe, expect, test } from 'vitest';
import { after, DAY } from '../../pki/durations.ts';
import { firstAuthority } from '../../../test/support/pki/fixtures.ts';
import type { Service } from '../../pki/serving-certs/request.ts';
import { containing } from '../../../test/support/runtime/fixtures.ts';
import { createWorld, type ServingCertsWorld } from '../../../test/support/runtime/serving-certs.ts';
import { WriteRefused } from '../write-refused.ts';

const start = new Date('2026-11-21T12:00:00Z');
const BETA = 'service.beta.openshift.io/';
const ALPHA = 'service.alpha.openshift.io/';
const authority = await firstAuthority(start);
let world: ServingCertsWorld;

beforeEach(() => {
  world = createWorld(authority, start);
  world.rules = { ...world.rules, openshift: true };
});

const add = (annotations: Record<string, string>, spec: Service['spec'] = {}) => {
  world.add({ metadata: { namespace: 'prod', name: 'db', uid: 'uid-of-db', annotations }, spec });
};
const asking = (prefix: string, name = 'db-tls') => ({ [`${prefix}serving-cert-secret-name`]: name });
const annotationsOf = () => world.services.read('prod/db')?.metadata?.annotations ?? {};
const secretAnnotations = () => world.secret()?.metadata?.annotations;
const theirs = (annotations: Record<string, string>, data: Record<string, string> = {}) => {
  const metadata = { namespace: 'prod', name: 'db-tls', annotations };
  world.secrets.add({ metadata, type: 'kubernetes.io/tls', data });
};
const expiry = () => world.leaf().validToDate.toISOString().replace('.000', '');
const fingerprint = () => world.leaf().fingerprint256;

describe('service-ca TestServiceServingCertControllerSync:', () => {
  test.each([
    ['basic controller flow', ALPHA, {}, 'DNS:db.prod.svc,'],
    ['basic controller flow, beta annotations', BETA, {}, 'DNS:db.prod.svc,'],
    ['basic controller flow, headless, beta annotations', BETA, { clusterIP: 'None' }, 'DNS:*.db.prod.svc'],
  ])('%s; secret already contains the right cert', async (_name, prefix, spec, names) => {
    add(asking(prefix), spec);
    await world.run('db');
    expect(world.leaf().subjectAltName).toContain(names);
    const signedBy = `gatehouse-serving-ca-${authority.generations[0]?.id ?? ''}`;
    expect(annotationsOf()).toMatchObject({
      [`${BETA}serving-cert-signed-by`]: signedBy,
      [`${ALPHA}serving-cert-signed-by`]: signedBy,
    });
    expect(secretAnnotations()).toMatchObject({
      [`${BETA}originating-service-uid`]: 'uid-of-db',
      [`${BETA}originating-service-name`]: 'db',
      [`${BETA}expiry`]: expiry(),
    });
    const before = world.secret();
    await world.run('db');
    expect(world.secret()).toEqual(before);
    expect([world.secrets.writes(), world.calls.annotated]).toEqual([1, 1]);
  });

  test.each([ALPHA, BETA])('secret already exists, is annotated but lacks data (%s)', async (prefix) => {
    add(asking(prefix));
    theirs({ [`${prefix}originating-service-uid`]: 'uid-of-db' });
    await world.run('db');
    expect(world.leaf().subjectAltName).toContain('DNS:db.prod.svc');
  });

  test.each([ALPHA, BETA])('secret already exists for different svc UID (%s)', async (prefix) => {
    add(asking(prefix));
    theirs({ [`${prefix}originating-service-uid`]: 'another' }, { 'tls.crt': 'eA==' });
    await world.run('db');
    await world.run('db');
    expect(world.secret()?.data).toEqual({ 'tls.crt': 'eA==' });
    expect(annotationsOf()).toMatchObject({
      [`${BETA}serving-cert-generation-error-num`]: '1',
      [`${BETA}serving-cert-generation-error`]: containing('belongs to another owner'),
    });
    world.secrets.remove('prod/db-tls');
    await world.run('db');
    expect(annotationsOf()).not.toHaveProperty([`${BETA}serving-cert-generation-error`]);
    expect(world.leaf().subjectAltName).toContain('DNS:db.prod.svc');
  });

  test('secret creation fails: it is retried forever, and the Service does not get an error (TestSyncCreateSecretErrorDoesntHotloop)', async () => {
    add(asking(BETA));
    for (let attempt = 0; attempt < 12; attempt++) {
      world.secrets.interrupt('before');
      await expect(world.run('db')).rejects.toThrow('connection broke');
    }
    expect(world.calls.annotated).toBe(0); // a write to the Service would trigger a reconcile at once
    await world.run('db');
    expect(world.leaf().subjectAltName).toContain('DNS:db.prod.svc');
  });

  test('secret creation fails, invalid secret name', async () => {
    add(asking(BETA, 'db_TLS'));
    await world.run('db');
    await world.run('db');
    expect(annotationsOf()[`${BETA}serving-cert-generation-error`]).toContain('"db_TLS"');
    expect([world.secrets.writes(), world.calls.annotated]).toEqual([0, 1]);
  });

  test('contains pre-headless cert data, update to headless', async () => {
    add(asking(BETA));
    await world.run('db');
    add(asking(BETA), { clusterIP: 'None' });
    await world.run('db');
    expect(world.leaf().subjectAltName).toContain('DNS:*.db.prod.svc');
  });

  test('secret points to a non-existent service (noop)', async () => {
    theirs({ [`${BETA}originating-service-name`]: 'db' });
    await world.run('db');
    expect(world.secrets.writes()).toBe(0);
  });
});

describe.each([
  ['TestRequiresRegenerationOrReplace', ALPHA],
  ['TestRequiresRegenerationBetaAnnotation', BETA],
])('service-ca %s:', (_name, prefix) => {
  beforeEach(async () => {
    add(asking(prefix));
    await world.run('db');
  });

  test.each([
    ['no expiry: the certificate determines it', 'expiry', null],
    ['bad expiry', 'expiry', 'bad'],
    ['expired expiry', 'expiry', '2020-01-01T00:00:00Z'],
    ['distant expiry', 'expiry', '2099-01-01T00:00:00Z'],
    ['service-uid-mismatch', 'originating-service-uid', 'x'],
  ])('%s: the annotation is repaired, and the cert stays', async (_case, name, value) => {
    const [before, healthy] = [fingerprint(), secretAnnotations()];
    world.secrets.patch('prod/db-tls', { metadata: { annotations: { [`${BETA}${name}`]: value } } });
    await world.run('db');
    expect(fingerprint()).toBe(before);
    expect(secretAnnotations()).toEqual(healthy);
    const repaired = { [`${BETA}expiry`]: expiry(), [`${BETA}originating-service-uid`]: 'uid-of-db' };
    expect(healthy).toMatchObject(repaired);
  });

  test.each<[string, Record<string, string> | undefined]>([
    ['no service annotation', {}],
    ['missing service', undefined],
    ['service secret name mismatch', asking(prefix, 'another')],
  ])('%s: the Secret stays unchanged', async (_case, annotations) => {
    const before = world.secret();
    if (annotations === undefined) world.services.remove('prod/db');
    else add(annotations);
    world.now = after(start, 80 * DAY);
    await world.run('db');
    expect(world.secret()).toEqual(before);
  });
});

test('a Service that cannot be annotated still gets its cert, and gets the annotation once that is possible', async () => {
  add(asking(BETA));
  const forbidden = { client: { patchMerge: () => Promise.reject(new WriteRefused('403 Forbidden')) } };
  await world.run('db', forbidden);
  expect(world.leaf().subjectAltName).toContain('DNS:db.prod.svc');
  expect((await world.run('db', forbidden)).kind).toBe('requeue');
  await world.run('db');
  expect(annotationsOf()).toHaveProperty([`${BETA}serving-cert-signed-by`]);
});

test('the Gatehouse annotation wins, and then no OpenShift annotation is written', async () => {
  add({ ...asking(BETA, 'theirs'), 'gatehouse.dev/serving-cert-secret-name': 'db-tls' });
  await world.run('db');
  expect(world.leaf().subjectAltName).toContain('DNS:db.prod.svc');
  expect(world.secret('theirs')).toBeUndefined();
  expect(world.calls.annotated).toBe(0);
});
