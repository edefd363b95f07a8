import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';

import type { Authority } from '../../pki/authority/authority.ts';
import { after, HOUR } from '../../pki/durations.ts';
import { base64, firstAuthority, prepared } from '../../../test/support/pki/fixtures.ts';
import {
  createWorld,
  serviceNamed,
  type ServingCertsWorld,
} from '../../../test/support/runtime/serving-certs.ts';

const start = new Date('2026-11-21T12:00:00Z');
const OUTPUTS = 'gatehouse.dev/serving-cert-outputs';
const PASSWORD = 'gatehouse.dev/serving-cert-keystore-password';
let authority: Authority;
let world: ServingCertsWorld;
let folder: string;

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'gatehouse-outputs-'));
  authority = await firstAuthority(start);
});
afterAll(() => {
  rmSync(folder, { recursive: true, force: true });
});
beforeEach(() => {
  world = createWorld(authority, start);
  world.add(serviceNamed('db', { [OUTPUTS]: 'pkcs12,combined-pem' }));
});

const file = (key: string) => Buffer.from(world.secret('db-tls')?.data?.[key] ?? '', 'base64');
/** The content of a key store, as OpenSSL prints it. @throws Error if the password is wrong. */
function opened(key: string, password: string): string {
  const path = join(folder, 'store.p12');
  writeFileSync(path, file(key));
  return execFileSync('openssl', ['pkcs12', '-in', path, '-passin', `pass:${password}`, '-nodes'], {
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'ignore'],
  });
}
const lines = (pem: Buffer | string) => pem.toString().split('\n')[1] ?? '';

test('a Service that requests them gets key stores and a combined PEM of its cert', async () => {
  await world.run('db');
  expect(opened('keystore.p12', 'changeit')).toContain(lines(file('tls.crt')));
  expect(opened('truststore.p12', 'changeit')).toContain(lines(file('ca.crt')));
  expect(file('tls-combined.pem').toString()).toBe(file('tls.key').toString() + file('tls.crt').toString());
});

test('L7: a second reconcile changes no byte and needs no read', async () => {
  await world.run('db');
  const before = world.secret('db-tls');
  const reads = world.calls.reads;
  await world.run('db');
  expect(world.secret('db-tls')).toEqual(before);
  expect(world.calls.reads).toBe(reads);
  await world.reconciler()('prod/db', new AbortController().signal); // after a restart, one read is necessary
  expect(world.calls.reads).toBe(reads + 1);
  expect(world.secrets.writes()).toBe(1);
});

test.each(['keystore.p12', 'truststore.p12', 'tls-combined.pem'])(
  'L2: an edited %s is repaired',
  async (key) => {
    await world.run('db');
    const before = world.secret('db-tls')?.data;
    world.secrets.edit('prod/db-tls', (secret) => ({
      ...secret,
      data: { ...secret.data, [key]: base64('edited') },
    }));
    await world.run('db');
    expect(world.secret('db-tls')?.data).toEqual(before);
    expect(world.observed).toEqual(['issued Missing']);
  },
);

test('the trust store follows the CA bundle', async () => {
  await world.run('db');
  const before = file('keystore.p12');
  world.authority = await prepared(authority, start);
  await world.run('db');
  expect(opened('truststore.p12', 'changeit').match(/BEGIN CERTIFICATE/g)).toHaveLength(2);
  expect(file('keystore.p12').equals(before)).toBe(true);
});

test('JKS files have the password of the other stores, and stay while that cannot be read', async () => {
  const asking = (outputs: string) => {
    world.add(serviceNamed('db', { [OUTPUTS]: outputs, [PASSWORD]: 'stores' }));
  };
  const stores = { metadata: { namespace: 'prod', name: 'stores' }, data: { password: base64('secret') } };
  world.secrets.add(stores);
  asking('jks');
  await world.run('db');
  const before = world.secret('db-tls')?.data;
  expect(file('keystore.jks').readUInt32BE(0)).toBe(0xfeedfeed);
  world.secrets.remove('prod/stores');
  asking('jks,pkcs12');
  await world.run('db');
  expect(world.secret('db-tls')?.data).toEqual(before);
  expect(world.secret('db-tls')?.metadata?.annotations).toMatchObject({ [OUTPUTS]: 'jks' });
  expect(world.events.reasons()).toContain('KeystorePasswordMissing');
  world.secrets.add(stores);
  await world.run('db');
  expect(opened('keystore.p12', 'secret')).toContain(lines(file('tls.crt')));
  expect(file('keystore.jks').toString('base64')).toBe(before?.['keystore.jks']);
});

test('outputs that are no longer requested are removed', async () => {
  await world.run('db');
  world.add(serviceNamed('db', { [OUTPUTS]: 'combined-pem' }));
  await world.run('db');
  expect(Object.keys(world.secret('db-tls')?.data ?? {}).sort()).toEqual([
    'ca.crt',
    'tls-combined.pem',
    'tls.crt',
    'tls.key',
  ]);
  world.add(serviceNamed('db'));
  await world.run('db');
  expect(Object.keys(world.secret('db-tls')?.data ?? {}).sort()).toEqual(['ca.crt', 'tls.crt', 'tls.key']);
  expect(world.observed).toEqual(['issued Missing']);
});

test('the password comes from a Secret, and a new password is used', async () => {
  const withPassword = (password: string) => {
    world.secrets.add({
      metadata: { namespace: 'prod', name: 'stores' },
      data: { password: base64(password) },
    });
  };
  world.add(serviceNamed('db', { [OUTPUTS]: 'pkcs12', [PASSWORD]: 'stores' }));
  withPassword('first');
  await world.run('db');
  expect(opened('keystore.p12', 'first')).toContain(lines(file('tls.crt')));
  withPassword('second');
  const result = await world.run('db');
  expect(result.kind === 'requeue' && result.at <= after(start, HOUR)).toBe(true);
  world.now = result.kind === 'requeue' ? result.at : start;
  await world.run('db');
  expect(opened('keystore.p12', 'second')).toContain(lines(file('tls.crt')));
  expect(() => opened('keystore.p12', 'first')).toThrow();
});

test('without the password there is a cert but no key store, and one Event reports it', async () => {
  world.add(serviceNamed('db', { [OUTPUTS]: 'pkcs12,combined-pem', [PASSWORD]: 'stores/java' }));
  await world.run('db');
  await world.run('db');
  expect(file('tls-combined.pem').length).toBeGreaterThan(0);
  expect(file('keystore.p12')).toHaveLength(0);
  expect(world.events.reasons()).toEqual(['Issued', 'KeystorePasswordMissing']);
});

test('a password of more than 1 KiB would block the leader, and counts as missing', async () => {
  const withPassword = (password: string) => {
    world.secrets.add({
      metadata: { namespace: 'prod', name: 'stores' },
      data: { password: base64(password) },
    });
  };
  world.add(serviceNamed('db', { [OUTPUTS]: 'pkcs12,jks', [PASSWORD]: 'stores' }));
  withPassword('x'.repeat(1025));
  await world.run('db');
  expect(file('tls.crt').length).toBeGreaterThan(0);
  expect(file('keystore.p12')).toHaveLength(0);
  expect(file('keystore.jks')).toHaveLength(0);
  expect(world.events.reasons()).toEqual(['Issued', 'KeystorePasswordMissing']);
  withPassword('x'.repeat(1024));
  await world.run('db');
  expect(file('keystore.p12').length).toBeGreaterThan(0);
  expect(file('keystore.jks').length).toBeGreaterThan(0);
});

test('a valid key store stays while its password is unavailable', async () => {
  world.add(serviceNamed('db', { [OUTPUTS]: 'pkcs12', [PASSWORD]: 'stores' }));
  world.secrets.add({ metadata: { namespace: 'prod', name: 'stores' }, data: { password: base64('x') } });
  await world.run('db');
  const before = world.secret('db-tls');
  world.secrets.remove('prod/stores');
  world.now = after(start, HOUR);
  await world.run('db');
  expect(world.secret('db-tls')).toEqual(before);
});
