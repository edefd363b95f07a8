import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';

import { testTrust } from '../../../test/support/pki/trust-matrix.ts';
import { hasOpenssl, nodeVerdict, opensslTrusts } from '../../../test/support/trust-verdicts.ts';
import { type Authority, caBundle } from './authority.ts';
import {
  firstAuthority,
  rotated,
  type Server,
  SERVER_NAME,
  serverOf,
} from '../../../test/support/pki/fixtures.ts';
import { type CertificatePem, splitCertificates, toCertificatePem } from '../x509/pem.ts';

const now = new Date();
const directory = mkdtempSync(join(tmpdir(), 'gatehouse-pki-'));
afterAll(() => {
  rmSync(directory, { recursive: true });
});

/** The verdict of Node. */
const handshake = (server: Server, bundle: string): Promise<string> =>
  nodeVerdict(server, bundle, SERVER_NAME);

function openssl(...args: readonly string[]): string {
  try {
    return execFileSync('openssl', args, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] });
  } catch (error) {
    return `failed: ${error instanceof Error ? error.message : String(error)}`;
  }
}

describe('three generations', () => {
  const bundles = new Map<string, CertificatePem>();
  const servers = new Map<string, Server>();

  beforeAll(async () => {
    const one = await firstAuthority(now);
    const two = await rotated(one, now);
    const three = await rotated(two, now);
    const [third, second] = three.generations;
    if (third === undefined || second === undefined) throw new Error('the authority is too short');

    const bundle = (name: string, authority: Authority) => bundles.set(name, caBundle(authority, now));
    bundle('B1', one);
    bundle('U12', two);
    bundle('C2', { generations: [second] });
    bundle('U123', three);
    bundle('U23', { generations: [third, second] });
    bundle('C3', { generations: [third] });
    servers.set('S1', await serverOf(one, now));
    servers.set('S2', await serverOf(two, now));
    servers.set('S3', await serverOf(three, now));
  });

  const cells = (
    [
      ['S1', ['B1', 'U12', 'U123'], ['C2', 'U23', 'C3']],
      ['S2', ['B1', 'U12', 'C2', 'U123', 'U23'], ['C3']],
      ['S3', ['B1', 'U12', 'C2', 'U123', 'U23', 'C3'], []],
    ] as const
  ).flatMap(([server, trusting, refusing]) => [
    ...trusting.map((client) => ({ server, client, trusted: true })),
    ...refusing.map((client) => ({ server, client, trusted: false })),
  ]);

  const get = <Value>(map: ReadonlyMap<string, Value>, name: string): Value => {
    const value = map.get(name);
    if (value === undefined) throw new Error(`there is no ${name}`);
    return value;
  };

  testTrust(cells, ({ server, client }) => ({ server: get(servers, server), bundle: get(bundles, client) }));

  test('a client two generations behind rejects a server that omits a bridge', async () => {
    const server = get(servers, 'S3');
    const [leaf, bridge] = splitCertificates(server.chain);
    if (leaf === undefined || bridge === undefined) throw new Error('the chain is too short');
    const skipping = { ...server, chain: toCertificatePem([leaf, bridge]) };
    expect(await handshake(skipping, get(bundles, 'B1'))).not.toBe('ok');
    expect(await handshake(skipping, get(bundles, 'U12'))).toBe('ok');
  });

  test('no served chain contains a root, and each certificate issued the one before it', () => {
    for (const { chain } of servers.values()) {
      const certificates = splitCertificates(chain);
      for (const [index, certificate] of certificates.entries()) {
        expect(certificate.checkIssued(certificate)).toBe(false);
        const issuer = certificates[index + 1];
        if (issuer !== undefined) expect(certificate.checkIssued(issuer)).toBe(true);
      }
    }
    expect([...servers.values()].map(({ chain }) => splitCertificates(chain).length)).toEqual([1, 2, 3]);
  });
});

test.each(['ECDSA-P256', 'ECDSA-P384', 'RSA-2048', 'RSA-3072'] as const)(
  'clients trust a server with a key of type %s, even if the authority has such a key',
  async (algorithm) => {
    const authority = await firstAuthority(now, algorithm);
    const server = await serverOf(authority, now, algorithm);
    expect(await handshake(server, caBundle(authority, now))).toBe('ok');
    if (hasOpenssl) expect(opensslTrusts(server, caBundle(authority, now), SERVER_NAME)).toBe(true);
  },
);

test('generations with different key types sign bridges for each other', async () => {
  const old = await firstAuthority(now, 'RSA-2048');
  const server = await serverOf(await rotated(old, now), now, 'ECDSA-P384');
  expect(await handshake(server, caBundle(old, now))).toBe('ok');
});

test.skipIf(!hasOpenssl)('openssl reads the extensions of the profile', async () => {
  const authority = await firstAuthority(now);
  const show = (name: string, pem: string) => {
    writeFileSync(join(directory, name), pem);
    return openssl('x509', '-noout', '-text', '-in', join(directory, name)).replace(/\s+/g, ' ');
  };
  const leaf = show('leaf.pem', (await serverOf(authority, now)).chain);
  expect(leaf).toContain('Version: 3');
  expect(leaf).toContain('Subject: Subject Public Key Info');
  expect(leaf).toContain(`X509v3 Subject Alternative Name: critical DNS:${SERVER_NAME}`);
  expect(leaf).toContain('X509v3 Basic Constraints: critical CA:FALSE');
  expect(leaf).toContain('X509v3 Key Usage: critical Digital Signature X509v3 Extended');
  expect(leaf).toContain('Extended Key Usage: TLS Web Server Authentication');
  expect(leaf).not.toContain('serial:');

  const rsaLeaf = show('rsa.pem', (await serverOf(authority, now, 'RSA-2048')).chain);
  expect(rsaLeaf).toContain('X509v3 Key Usage: critical Digital Signature, Key Encipherment');

  const root = show('root.pem', caBundle(authority, now));
  expect(root).toMatch(/Subject: CN = gatehouse-serving-ca-[0-9a-f]{8} /);
  expect(root).toContain('X509v3 Basic Constraints: critical CA:TRUE X509v3');
  expect(root).toContain('X509v3 Key Usage: critical Certificate Sign, CRL Sign');
  expect(root).not.toContain('Extended Key Usage');
});

describe.skipIf(!hasOpenssl)('T6: validity over time', () => {
  const year = (years: number) => new Date(now.getTime() + years * 365 * 24 * 3600 * 1000);

  test("a chain is valid as long as the client's root, and no leaf outlives its CA", async () => {
    const one = await firstAuthority(now);
    const later = year(1);
    const two = await rotated(one, later);
    const server = await serverOf(two, later);
    const at = new Date(later.getTime() + 3600 * 1000);
    expect(opensslTrusts(server, caBundle(one, now), SERVER_NAME, at)).toBe(true);
    expect(opensslTrusts(server, caBundle(two, later), SERVER_NAME, at)).toBe(true);
    // The old root has expired: clients with only that root reject the server, clients with the new root accept it.
    const end = year(2.5);
    const late = await serverOf(two, end);
    const soon = new Date(end.getTime() + 3600 * 1000);
    expect(splitCertificates(late.chain)).toHaveLength(1);
    expect(opensslTrusts(late, caBundle(one, now), SERVER_NAME, soon)).toBe(false);
    expect(opensslTrusts(late, caBundle(two, later), SERVER_NAME, soon)).toBe(true);
    expect(caBundle(two, end)).toBe(caBundle({ generations: two.generations.slice(0, 1) }, end));
  });
});
