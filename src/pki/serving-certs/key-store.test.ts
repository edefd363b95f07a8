import { execFile } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';

import { type Authority, caBundle } from '../authority/authority.ts';
import {
  firstAuthority,
  rotated,
  type Server,
  SERVER_NAME,
  serverOf,
} from '../../../test/support/pki/fixtures.ts';
import { hasJava } from '../../../test/support/trust-verdicts.ts';
import type { KeyAlgorithm } from '../x509/keys.ts';
import { toJksKeyStore, toJksTrustStore, toKeyStore, toTrustStore } from './key-store.ts';
import { splitCertificates } from '../x509/pem.ts';

const run = promisify(execFile);
const now = new Date();
const password = 'p4ß wörd';

let folder: string;
let authority: Authority;
let server: Server;

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'gatehouse-key-store-'));
  authority = await rotated(await rotated(await firstAuthority(now), now), now);
  server = await serverOf(authority, now);
});
afterAll(() => {
  rmSync(folder, { recursive: true, force: true });
});

const storeOf = (one: Server, secret = password) => toKeyStore({ ...one, password: secret });

function file(name: string, content: Uint8Array | string): string {
  const path = join(folder, name);
  writeFileSync(path, content);
  return path;
}

const openssl = async (...args: readonly string[]) => (await run('openssl', args)).stdout;

describe('OpenSSL', () => {
  test.each<KeyAlgorithm>(['ECDSA-P256', 'ECDSA-P384', 'RSA-2048', 'Ed25519'])(
    'reads key and chain of a %s store',
    async (algorithm) => {
      const one = await serverOf(authority, now, algorithm);
      const path = file(`${algorithm}.p12`, await storeOf(one));
      const text = await openssl('pkcs12', '-in', path, '-passin', `pass:${password}`, '-nodes');
      expect(splitCertificates(text).map(({ fingerprint256 }) => fingerprint256)).toEqual(
        splitCertificates(one.chain).map(({ fingerprint256 }) => fingerprint256),
      );
      expect(text).toContain(one.privateKey);
      expect(text).toContain('friendlyName: tls');
    },
  );

  test('rejects another password', async () => {
    const path = file('wrong.p12', await storeOf(server));
    await expect(openssl('pkcs12', '-in', path, '-passin', 'pass:other', '-nodes')).rejects.toThrow(
      /invalid password/,
    );
  });

  test('finds every root of the bundle in the trust store, each under its own name', async () => {
    const bundle = caBundle(authority, now);
    const path = file('trust.p12', toTrustStore(bundle, password));
    const text = await openssl('pkcs12', '-in', path, '-passin', `pass:${password}`, '-nokeys');
    expect(splitCertificates(text)).toHaveLength(3);
    expect(new Set(text.match(/friendlyName: .*/g)).size).toBe(3);
  });
});

test('the same input gives the same bytes, and another password gives other bytes', async () => {
  expect(Buffer.from(await storeOf(server)).equals(await storeOf(server))).toBe(true);
  expect(Buffer.from(await storeOf(server)).equals(await storeOf(server, 'other'))).toBe(false);
  const bundle = caBundle(authority, now);
  expect(Buffer.from(toTrustStore(bundle, 'a')).equals(toTrustStore(bundle, 'a'))).toBe(true);
});

test('an empty password makes a store that opens with an empty password', async () => {
  const path = file('empty.p12', await storeOf(server, ''));
  const text = await openssl('pkcs12', '-in', path, '-passin', 'pass:', '-nodes');
  expect(text).toContain(server.privateKey);
});

/** Serves with the key store to a client with the trust store, and prints the names in the certificate. */
const JAVA = `
import java.io.*; import java.security.cert.X509Certificate; import javax.net.ssl.*;
class Handshake {
  public static void main(String[] args) throws Exception {
    var server = (SSLServerSocket) SSLServerSocketFactory.getDefault().createServerSocket(0);
    Thread serving = new Thread(() -> {
      try (SSLSocket accepted = (SSLSocket) server.accept()) { accepted.startHandshake(); }
      catch (IOException error) { error.printStackTrace(); }
    });
    serving.start();
    try (var client = (SSLSocket) SSLSocketFactory.getDefault().createSocket("127.0.0.1", server.getLocalPort())) {
      client.startHandshake();
      X509Certificate leaf = (X509Certificate) client.getSession().getPeerCertificates()[0];
      System.out.println(leaf.getPublicKey().getAlgorithm() + leaf.getSubjectAlternativeNames());
    }
    serving.join();
  }
}
`;

describe.skipIf(!hasJava).each([
  { type: 'PKCS12', keyStore: toKeyStore, trustStore: toTrustStore },
  { type: 'JKS', keyStore: toJksKeyStore, trustStore: toJksTrustStore },
])('Java with $type', ({ type, keyStore, trustStore }) => {
  const ascii = 'changeit';
  beforeAll(() => run('javac', ['-d', folder, file('Handshake.java', JAVA)]));

  const write = async (secret: string, one: Server = server, name = 'java') => {
    const keys = file(`${name}.${type}`, await keyStore({ ...one, password: secret }));
    return { keys, trust: file(`${name}-trust.${type}`, trustStore(caBundle(authority, now), secret)) };
  };
  const list = async (path: string, secret = ascii) =>
    (await run('keytool', ['-list', '-v', '-storetype', type, '-storepass', secret, '-keystore', path]))
      .stdout;

  test('keytool finds the key with its whole chain, and a trusted entry for every root', async () => {
    const { keys, trust } = await write(ascii);
    const text = await list(keys);
    expect(text).toMatch(/Alias name: tls\n/);
    expect(text).toContain('PrivateKeyEntry');
    expect(text).toContain('Certificate chain length: 3');
    const roots = await list(trust);
    expect(roots).toContain('Your keystore contains 3 entries');
    expect(roots.match(/trustedCertEntry/g)).toHaveLength(3);
  });

  test('keytool rejects another password and an edited file', async () => {
    const { keys } = await write(ascii);
    await expect(list(keys, 'another')).rejects.toThrow();
    const bytes = readFileSync(keys);
    bytes[bytes.length - 200] = (bytes[bytes.length - 200] ?? 0) ^ 1;
    await expect(list(file(`edited.${type}`, bytes))).rejects.toThrow();
  });

  test.each([
    ['ECDSA-P256', 'EC'],
    ['RSA-2048', 'RSA'],
    ['Ed25519', 'EdDSA'],
  ] as const)('a server and a client use them, with a key of type %s', async (algorithm, inJava) => {
    const { keys, trust } = await write(ascii, await serverOf(authority, now, algorithm), algorithm);
    const settings = Object.entries({ keyStore: keys, trustStore: trust }).flatMap(([name, path]) =>
      Object.entries({ '': path, Type: type, Password: ascii }).map(
        ([end, value]) => `-Djavax.net.ssl.${name}${end}=${value}`,
      ),
    );
    const { stdout } = await run('java', [...settings, '-cp', folder, 'Handshake']);
    expect(stdout).toBe(`${inJava}[[2, ${SERVER_NAME}]]\n`);
  });
});

test('a JKS file has the same bytes for the same input, and another password gives other bytes', () => {
  const made = (secret: string) => Buffer.from(toJksKeyStore({ ...server, password: secret }));
  expect(made('a').equals(made('a'))).toBe(true);
  expect(made('a').equals(made('b'))).toBe(false);
  const keyInside = Buffer.from(server.privateKey.split('\n')[1] ?? '', 'base64');
  expect(made('a').includes(keyInside)).toBe(false);
});
