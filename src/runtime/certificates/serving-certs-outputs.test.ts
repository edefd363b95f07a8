import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeEach, expect, test } from 'vitest';

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
const authority = await firstAuthority(start);
const folder = mkdtempSync(join(tmpdir(), 'gatehouse-outputs-'));
let world: ServingCertsWorld;

afterAll(() => {
  rmSync(folder, { recursive: true, force: true });
});
const ask = (outputs?: string, password?: string) => {
  const annotations = { [OUTPUTS]: outputs, [PASSWORD]: password };
  const given = Object.entries(annotations).flatMap(([name, value]) =>
    value === undefined ? [] : [[name, value]],
  );
  world.add(serviceNamed('db', Object.fromEntries(given) as Record<string, string>));
};
const setPassword = (password: string) => {
  world.secrets.add({
    metadata: { namespace: 'prod', name: 'stores' },
    data: { password: base64(password) },
  });
};
const file = (key: string) => world.file(key);
beforeEach(() => {
  world = createWorld(authority, start);
  ask('pkcs12,combined-pem');
});

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
  const before = world.secret();
  const reads = world.calls.reads;
  await world.run('db');
  expect(world.secret()).toEqual(before);
  expect(world.calls.reads).toBe(reads);
  await world.reconciler()('prod/db', new AbortController().signal); // after a restart, one read is necessary
  expect(world.calls.reads).toBe(reads + 1);
  expect(world.secrets.writes()).toBe(1);
});

test.each(['keystore.p12', 'truststore.p12', 'tls-combined.pem'])(
  'L2: an edited %s is repaired',
  async (key) => {
    await world.run('db');
    const before = world.secret()?.data;
    world.secrets.patch('prod/db-tls', { data: { [key]: base64('edited') } });
    await world.run('db');
    expect(world.secret()?.data).toEqual(before);
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

test('JKS files have the password of the other stores', async () => {
  setPassword('secret');
  ask('jks', 'stores');
  await world.run('db');
  expect(file('keystore.jks').readUInt32BE(0)).toBe(0xfeedfeed);
  const before = file('keystore.jks');
  ask('jks,pkcs12', 'stores');
  await world.run('db');
  expect(opened('keystore.p12', 'secret')).toContain(lines(file('tls.crt')));
  expect(file('keystore.jks')).toEqual(before);
});

test('valid key stores stay while their password cannot be read, and new ones wait for it', async () => {
  setPassword('secret');
  ask('jks', 'stores');
  await world.run('db');
  const before = world.secret();
  world.secrets.remove('prod/stores');
  world.now = after(start, HOUR);
  await world.run('db');
  expect(world.secret()).toEqual(before);
  ask('jks,pkcs12', 'stores');
  await world.run('db');
  expect(world.secret()?.data).toEqual(before?.data);
  expect(world.secret()?.metadata?.annotations).toMatchObject({ [OUTPUTS]: 'jks' });
  expect(world.events.reasons()).toContain('KeystorePasswordMissing');
  setPassword('secret');
  await world.run('db');
  expect(opened('keystore.p12', 'secret')).toContain(lines(file('tls.crt')));
  expect(file('keystore.jks').toString('base64')).toBe(before?.data?.['keystore.jks']);
});

test('outputs that are no longer requested are removed', async () => {
  await world.run('db');
  for (const outputs of ['combined-pem', undefined]) {
    ask(outputs);
    await world.run('db');
    const files = ['ca.crt', outputs === undefined ? [] : 'tls-combined.pem', 'tls.crt', 'tls.key'].flat();
    expect(Object.keys(world.secret()?.data ?? {}).sort()).toEqual(files);
  }
  expect(world.observed).toEqual(['issued Missing']);
});

test('the password comes from a Secret, and a new password is used within an hour', async () => {
  ask('pkcs12', 'stores');
  setPassword('first');
  await world.run('db');
  expect(opened('keystore.p12', 'first')).toContain(lines(file('tls.crt')));
  setPassword('second');
  const result = await world.run('db');
  expect(result.kind === 'requeue' && result.at <= after(start, HOUR)).toBe(true);
  world.now = result.kind === 'requeue' ? result.at : start;
  await world.run('db');
  expect(opened('keystore.p12', 'second')).toContain(lines(file('tls.crt')));
  expect(() => opened('keystore.p12', 'first')).toThrow();
});

test.each([
  ['without a password', undefined],
  ['with a password of more than 1 KiB, which would block the leader', 'x'.repeat(1025)],
])('%s there is a cert but no key store, and one Event reports it', async (_what, password) => {
  if (password !== undefined) setPassword(password);
  ask('pkcs12,jks,combined-pem', 'stores');
  await world.run('db');
  await world.run('db');
  expect(file('tls-combined.pem').length).toBeGreaterThan(0);
  expect([file('keystore.p12').length, file('keystore.jks').length]).toEqual([0, 0]);
  expect(world.events.reasons()).toEqual(['Issued', 'KeystorePasswordMissing']);
  setPassword('x'.repeat(1024));
  await world.run('db');
  expect(file('keystore.p12').length).toBeGreaterThan(0);
  expect(file('keystore.jks').length).toBeGreaterThan(0);
});
