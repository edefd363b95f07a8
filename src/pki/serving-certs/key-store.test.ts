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

const storeOf = ({ chain, keyPair }: Server, secret = password) =>
  toKeyStore({ chain, privateKey: keyPair.privateKey, password: secret });

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
      expect(text).toContain(one.keyPair.privateKey);
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
  expect(await openssl('pkcs12', '-in', path, '-passin', 'pass:', '-nodes')).toContain(
    server.keyPair.privateKey,
  );
});

if (!hasJava)
  console.log(
    'skipped: Java does not read the key stores, because there is no java with a compiler on the PATH',
  );

/** Serves each key store to a client with its trust store, and prints the names in the certificate. */
const JAVA = `
import java.io.*; import java.security.*; import java.security.cert.X509Certificate; import javax.net.ssl.*;
class Handshake {
  static KeyStore open(String type, String path) throws Exception {
    KeyStore store = KeyStore.getInstance(type);
    try (InputStream in = new FileInputStream(path)) { store.load(in, "changeit".toCharArray()); }
    return store;
  }
  static void shake(String type, String keyPath, String trustPath) throws Exception {
    KeyManagerFactory keys = KeyManagerFactory.getInstance("PKIX");
    keys.init(open(type, keyPath), "changeit".toCharArray());
    TrustManagerFactory trust = TrustManagerFactory.getInstance("PKIX");
    trust.init(open(type, trustPath));
    SSLContext context = SSLContext.getInstance("TLS");
    context.init(keys.getKeyManagers(), trust.getTrustManagers(), null);
    SSLServerSocket server = (SSLServerSocket) context.getServerSocketFactory().createServerSocket(0);
    Thread serving = new Thread(() -> {
      try (SSLSocket accepted = (SSLSocket) server.accept()) { accepted.startHandshake(); }
      catch (IOException error) { error.printStackTrace(); }
    });
    serving.start();
    try (SSLSocket client = (SSLSocket) context.getSocketFactory().createSocket("127.0.0.1", server.getLocalPort())) {
      client.startHandshake();
      X509Certificate leaf = (X509Certificate) client.getSession().getPeerCertificates()[0];
      System.out.println(leaf.getPublicKey().getAlgorithm() + leaf.getSubjectAlternativeNames());
    }
    serving.join();
  }
  public static void main(String[] args) throws Exception {
    for (int i = 1; i + 1 < args.length; i += 2) shake(args[0], args[i], args[i + 1]);
  }
}
`;

describe.skipIf(!hasJava).each([
  { type: 'PKCS12', keyStore: toKeyStore, trustStore: toTrustStore },
  { type: 'JKS', keyStore: toJksKeyStore, trustStore: toJksTrustStore },
])('Java with $type', ({ type, keyStore, trustStore }) => {
  const ascii = 'changeit';
  const write = async (secret: string, one: Server = server, name = 'java') => {
    const { chain, keyPair } = one;
    const keys = file(
      `${name}.${type}`,
      await keyStore({ chain, privateKey: keyPair.privateKey, password: secret }),
    );
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

  test('a server and a client use them, with each type of key', async () => {
    const paths: string[] = [];
    for (const algorithm of ['ECDSA-P256', 'RSA-2048', 'Ed25519'] as const) {
      const { keys, trust } = await write(ascii, await serverOf(authority, now, algorithm), algorithm);
      paths.push(keys, trust);
    }
    const { stdout } = await run('java', [file('Handshake.java', JAVA), type, ...paths]);
    expect(stdout.trim().split('\n')).toEqual(
      ['EC', 'RSA', 'EdDSA'].map((algorithm) => `${algorithm}[[2, ${SERVER_NAME}]]`),
    );
  });
});

test('a JKS file has the same bytes for the same input, and another password gives other bytes', () => {
  const made = (secret: string) =>
    Buffer.from(
      toJksKeyStore({ chain: server.chain, privateKey: server.keyPair.privateKey, password: secret }),
    );
  expect(made('a').equals(made('a'))).toBe(true);
  expect(made('a').equals(made('b'))).toBe(false);
  expect(made('a').includes(Buffer.from(server.keyPair.privateKey.split('\n')[1] ?? '', 'base64'))).toBe(
    false,
  );
});
