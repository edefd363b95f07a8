import { execFile } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, connect } from 'node:tls';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Authority } from '../authority/authority.ts';
import { caBundle } from '../authority/bundle.ts';
import {
  firstAuthority,
  rotated,
  SERVER_NAME,
  serverOf,
  type Server,
} from '../../../test/support/pki/fixtures.ts';
import type { KeyAlgorithm } from '../x509/keys.ts';
import { toKeyStore, toTrustStore } from './key-store.ts';
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

test('Node serves a key store, and a client with the bundle accepts it', async () => {
  const listener = createServer({ pfx: Buffer.from(await storeOf(server)), passphrase: password }, (socket) =>
    socket.end(),
  );
  await new Promise<void>((resolve) => listener.listen(0, '127.0.0.1', resolve));
  const address = listener.address();
  const port = typeof address === 'object' && address !== null ? address.port : 0;
  const authorized = await new Promise<boolean>((resolve, reject) => {
    const socket = connect(
      { host: '127.0.0.1', port, ca: caBundle(authority, now), servername: SERVER_NAME },
      () => {
        resolve(socket.authorized);
        socket.end();
      },
    );
    socket.on('error', reject);
  });
  expect(authorized).toBe(true);
  await new Promise((resolve) => listener.close(resolve));
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

const hasKeytool = await run('keytool', ['-help']).then(
  () => true,
  () => false,
);
if (!hasKeytool)
  console.log('skipped: Java does not read the key stores, because there is no keytool on the PATH');

describe.skipIf(!hasKeytool)('Java', () => {
  const ascii = 'changeit';
  const list = async (path: string) =>
    (await run('keytool', ['-list', '-v', '-storetype', 'PKCS12', '-storepass', ascii, '-keystore', path]))
      .stdout;

  test('finds the key with its whole chain', async () => {
    const text = await list(file('java.p12', await storeOf(server, ascii)));
    expect(text).toMatch(/Alias name: tls\n/);
    expect(text).toContain('PrivateKeyEntry');
    expect(text).toContain('Certificate chain length: 3');
  });

  test('finds a trusted entry for every root', async () => {
    const text = await list(file('java-trust.p12', toTrustStore(caBundle(authority, now), ascii)));
    expect(text).toContain('Your keystore contains 3 entries');
    expect(text.match(/trustedCertEntry/g)).toHaveLength(3);
  });
});
