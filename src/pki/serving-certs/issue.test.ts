import { X509Certificate } from 'node:crypto';
import { beforeAll, describe, expect, test } from 'vitest';

import { activeGeneration, type Authority, caBundle, createAuthority } from '../authority/authority.ts';
import { after, DAY, HOUR, MINUTE } from '../durations.ts';
import {
  base64,
  firstAuthority,
  rotated,
  SERVER_NAME,
  serverOf,
  firstImported,
  importedFrom,
} from '../../../test/support/pki/fixtures.ts';
import {
  FOREIGN_STACKS,
  hasOpenssl,
  nodeVerdict,
  opensslTrusts,
} from '../../../test/support/trust-verdicts.ts';
import { rootOf } from '../authority/generation.ts';
import { makeCa, dataOf } from '../../../test/support/pki/openssl-ca.ts';
import { DEFAULT_KEY_ALGORITHM, generateKeyPair, type KeyPair, randomSerial } from '../x509/keys.ts';
import { summarizeServingCert } from './facts.ts';
import {
  issueServingCert,
  issueSessionCert,
  OutsideConstraints,
  type ServingCertOrder,
  TrustTooShort,
} from './issue.ts';

const now = new Date('2026-03-01T12:00:00Z');
let authority: Authority;
let keyPair: KeyPair;
let order: ServingCertOrder;

beforeAll(async () => {
  authority = await firstAuthority(now);
  keyPair = await generateKeyPair('ECDSA-P256');
  order = {
    authority,
    dnsNames: ['db', 'db.prod.svc'],
    keyPair,
    serial: randomSerial(),
    now,
    lifetimeMs: 90 * DAY,
  };
});

test('OPA TestCertSigning, Knative TestCreateCerts: a serving cert has its key and names, and the active generation signed it', async () => {
  const { chain, notAfter } = await issueServingCert(order);
  const leaf = new X509Certificate(chain);
  expect(leaf.publicKey.equals(keyPair.publicKey)).toBe(true);
  expect(leaf.subjectAltName).toBe('DNS:db, DNS:db.prod.svc');
  expect(leaf.checkHost('db.prod.svc', { subject: 'never' })).toBe('db.prod.svc');
  expect(leaf.validFromDate).toEqual(after(now, -HOUR));
  expect(leaf.validToDate).toEqual(after(now, 90 * DAY));
  expect(notAfter).toEqual(leaf.validToDate);
  expect(leaf.ca).toBe(false);
  expect(leaf.keyUsage).toEqual(['1.3.6.1.5.5.7.3.1']);
  const root = rootOf(activeGeneration(authority));
  expect(leaf.checkIssued(root) && leaf.verify(root.publicKey)).toBe(true);
});

describe('an Ed25519 key', () => {
  test.each(['ECDSA-P256', 'RSA-2048'] as const)(
    'is certified by an authority of type %s',
    async (algorithm) => {
      const realNow = new Date();
      const signer = await firstAuthority(realNow, algorithm);
      const server = await serverOf(await rotated(signer, realNow), realNow, 'Ed25519');
      const bundle = caBundle(signer, realNow);
      expect(new X509Certificate(server.chain).publicKey.asymmetricKeyType).toBe('ed25519');
      expect(await nodeVerdict(server, bundle, SERVER_NAME)).toBe('ok');
      const stacks = FOREIGN_STACKS.filter(({ missing }) => missing === undefined);
      const verdicts = await Promise.all(stacks.map(({ judge }) => judge([{ server, bundle }], SERVER_NAME)));
      expect(verdicts.flat()).toEqual(stacks.map(() => true));
    },
  );

  test('cannot sign: an authority with such a key is refused', async () => {
    await expect(firstAuthority(now, 'Ed25519')).rejects.toThrow('only RSA, P-256 and P-384 keys can sign');
  });
});

describe('IP addresses', () => {
  const withAddresses = () => ({ ...order, addresses: ['10.96.0.7', 'fd00::7'] });

  test('are in the cert, and its facts name them', async () => {
    const leaf = new X509Certificate((await issueServingCert(withAddresses())).chain);
    expect(
      ['10.96.0.7', 'fd00::7', '10.96.0.8'].map((address) => leaf.checkIP(address) !== undefined),
    ).toEqual([true, true, false]);
    const data = { 'tls.crt': base64(leaf.toString()), 'tls.key': base64(keyPair.privateKey) };
    expect(summarizeServingCert(data)).toMatchObject({ addresses: ['10.96.0.7', 'fd00::7'] });
  });

  test('are refused with the reason if the CA cannot sign them', async () => {
    const domains = ['svc', 'db'];
    const constrained = await createAuthority({ keyPair, serial: randomSerial(), now, domains });
    await expect(issueServingCert({ ...order, authority: constrained })).resolves.toBeDefined();
    const refused = () => issueServingCert({ ...withAddresses(), authority: constrained });
    await expect(refused()).rejects.toThrow(OutsideConstraints);
    await expect(refused()).rejects.toThrow(
      /^the IP address 10\.96\.0\.7 is outside the name constraints .*serving-cert-cluster-ips/,
    );
  });
});

describe('a client cert', () => {
  const issued = async () => (await issueServingCert({ ...order, purpose: 'client' })).chain;

  test('is only for clients, and does not identify a user of the API server', async () => {
    const leaf = new X509Certificate(await issued());
    expect(leaf.keyUsage).toEqual(['1.3.6.1.5.5.7.3.2']);
    expect(leaf.subject).toBeUndefined();
    expect(leaf.subjectAltName).toBe('DNS:db, DNS:db.prod.svc');
  });

  test.skipIf(!hasOpenssl)(
    'is accepted by OpenSSL from a client, and from no server; a serving cert the other way round',
    async () => {
      const bundle = caBundle(authority, now);
      const [client, serving] = [await issued(), (await issueServingCert(order)).chain];
      const accepts = (chain: string, purpose: 'sslclient' | 'sslserver') =>
        opensslTrusts({ chain }, bundle, 'db.prod.svc', now, purpose);
      expect([accepts(client, 'sslclient'), accepts(client, 'sslserver')]).toEqual([true, false]);
      expect([accepts(serving, 'sslclient'), accepts(serving, 'sslserver')]).toEqual([false, true]);
    },
  );

  test.skipIf(!hasOpenssl)('is refused by a CA that may sign only for servers', async () => {
    const soon = after(new Date(), MINUTE);
    const ca = makeCa({ more: ['extendedKeyUsage=serverAuth'] });
    const authority = await firstImported(await importedFrom(dataOf(ca), soon), soon);
    const forServers = { ...order, authority, now: soon };
    await expect(issueServingCert(forServers)).resolves.toBeDefined();
    const refused = () => issueServingCert({ ...forServers, purpose: 'client' });
    await expect(refused()).rejects.toThrow(OutsideConstraints);
    await expect(refused()).rejects.toThrow(/cannot sign certificates for clients: its extended key usage/);
  });
});

test('a serving cert ends an hour before its authority', async () => {
  const end = rootOf(activeGeneration(authority)).validToDate;
  const { notAfter } = await issueServingCert({ ...order, now: after(end, -30 * DAY) });
  expect(notAfter).toEqual(after(end, -HOUR));
});

test('T9: a cert that ends after the record of its generation is not signed before the record is extended', async () => {
  const [active] = authority.generations;
  const recordedUntil = (trustedUntil: Date | undefined): ServingCertOrder => ({
    ...order,
    authority: { generations: active === undefined ? [] : [{ ...active, trustedUntil }] },
  });
  const { notAfter } = await issueServingCert(recordedUntil(after(now, 90 * DAY)));
  expect(notAfter).toEqual(after(now, 90 * DAY));
  for (const until of [after(now, 90 * DAY - 1), undefined])
    await expect(issueServingCert(recordedUntil(until))).rejects.toThrow(TrustTooShort);
});

test('an authority that expires soon signs nothing, and the error says what to do', async () => {
  const end = rootOf(activeGeneration(authority)).validToDate;
  await expect(issueServingCert({ ...order, now: after(end, -HOUR) })).rejects.toThrow(
    'Rotate the authority',
  );
  await expect(issueServingCert({ ...order, now: after(end, DAY) })).rejects.toThrow('Rotate the authority');
});

test('nothing is signed while the clock is before the start of the authority', async () => {
  await expect(issueServingCert({ ...order, now: after(now, -2 * HOUR) })).rejects.toThrow('Check the clock');
});

test('names longer than a common name are allowed', async () => {
  const name = `${'a'.repeat(63)}.${'b'.repeat(63)}.svc.cluster.local`;
  const { chain } = await issueServingCert({ ...order, dnsNames: [name] });
  expect(new X509Certificate(chain).checkHost(name)).toBe(name);
});

test.each([
  [[], 'at least one DNS name'],
  [['db', 'D B'], '"D B" cannot stand in a serving cert: it has the label'],
  [['db.*.svc'], 'wildcard'],
])('the names %j are refused', async (dnsNames, message) => {
  await expect(issueServingCert({ ...order, dnsNames })).rejects.toThrow(message);
});

async function sessionFor(host: string) {
  const [authorityKeys, servingKeys] = await Promise.all([
    generateKeyPair(DEFAULT_KEY_ALGORITHM),
    generateKeyPair(DEFAULT_KEY_ALGORITHM),
  ]);
  const serials = { authority: randomSerial(), serving: randomSerial() };
  const { authority, chain, notAfter } = await issueSessionCert({
    host,
    authorityKeys,
    servingKeys,
    serials,
    now,
  });
  return { authority: new X509Certificate(authority), leaf: new X509Certificate(chain), notAfter };
}

test.each(['laptop.example.com', 'localhost', '192.168.1.7', 'fd00::7', '::1'])(
  'a certificate for %s is valid only for that host, and its authority signed it',
  async (host) => {
    const { authority, leaf, notAfter } = await sessionFor(host);
    expect(authority.ca).toBe(true);
    expect(leaf.ca).toBe(false);
    expect(leaf.checkIssued(authority) && leaf.verify(authority.publicKey)).toBe(true);
    const check = (name: string) => (/^[\d.]+$|:/.test(name) ? leaf.checkIP(name) : leaf.checkHost(name));
    expect(check(host)).toBe(host);
    expect(check('other.example.com')).toBeUndefined();
    expect(leaf.validToDate).toEqual(notAfter);
    expect(notAfter.getTime() - now.getTime()).toBeLessThanOrEqual(7 * 86_400_000);
  },
);
