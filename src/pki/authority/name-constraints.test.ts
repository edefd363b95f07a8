import { beforeAll, describe, expect, test } from 'vitest';

import { SERVER_NAME, serverOf } from '../../../test/support/pki/fixtures.ts';
import { hasOpenssl, nodeVerdict, opensslTrusts } from '../../../test/support/trust-verdicts.ts';
import { issueServingCert } from '../serving-certs/issue.ts';
import { generateKeyPair, type KeyPair, randomSerial } from '../x509/keys.ts';
import { signServingCert } from '../x509/certificate.ts';
import { activate, type Authority, caBundle, createAuthority, prepare } from './authority.ts';
import { createGeneration, issuerOf } from './generation.ts';

const now = new Date();
const DOMAINS = ['svc', 'svc.cluster.local', 'apps.example.com'];
let keyPair: KeyPair;
let authority: Authority;

const termsFor = async (domains?: readonly string[]) => ({
  keyPair: await generateKeyPair('ECDSA-P256'),
  serial: randomSerial(),
  now,
  domains,
});

const authorityFor = async (domains?: readonly string[]): Promise<Authority> =>
  await createAuthority(await termsFor(domains));

async function followedBy(before: Authority, domains?: readonly string[]): Promise<Authority> {
  const [previous] = before.generations;
  const next = await createGeneration({ ...(await termsFor(domains)), previous });
  return activate(prepare(before, next, undefined), next.id, now);
}

beforeAll(async () => {
  keyPair = await generateKeyPair('ECDSA-P256');
  authority = await authorityFor(DOMAINS);
});

/** What a thief of the CA key could sign: our own code refuses the name. */
async function forged(
  signedBy: Authority,
  names: { dnsNames: readonly string[]; addresses?: readonly Uint8Array[] },
) {
  const [generation] = signedBy.generations;
  if (generation === undefined) throw new Error('there is no generation');
  const term = {
    serial: randomSerial(),
    notBefore: new Date(now.getTime() - 60_000),
    notAfter: new Date(now.getTime() + 86_400_000),
  };
  const leaf = await signServingCert(names, keyPair.publicKey, term, issuerOf(generation));
  return { chain: `${leaf}${generation.bridge ?? ''}` as typeof leaf, privateKey: keyPair.privateKey };
}

test.each(['db', 'db.prod', 'example.com', 'mysvc', 'svc.evil'])(
  'no certificate is issued for %s',
  async (name) => {
    const order = { authority, keyPair, serial: randomSerial(), now, lifetimeMs: 86_400_000 };
    await expect(issueServingCert({ ...order, dnsNames: [SERVER_NAME, name] })).rejects.toThrow(
      /is outside the name constraints of generation .* \(svc, svc\.cluster\.local, apps\.example\.com\): rotate/,
    );
  },
);

describe.skipIf(!hasOpenssl)('clients of a CA with name constraints', () => {
  test.each([
    ['db.prod.svc', 'ok'],
    ['db.prod.svc.cluster.local', 'ok'],
    ['shop.apps.example.com', 'ok'],
    ['kubernetes.default', 'refused'],
    ['bank.example.org', 'refused'],
  ])('%s: %s', async (name, verdict) => {
    const presented = await forged(authority, { dnsNames: [name] });
    const bundle = caBundle(authority, now);
    expect((await nodeVerdict(presented, bundle, name)) === 'ok').toBe(verdict === 'ok');
    expect(opensslTrusts(presented, bundle, name)).toBe(verdict === 'ok');
  });

  test('refuse IP addresses', async () => {
    const addresses = [Uint8Array.of(10, 96, 0, 1)];
    const bundle = caBundle(authority, now);
    expect(
      opensslTrusts(await forged(authority, { dnsNames: ['db.prod.svc'], addresses }), bundle, SERVER_NAME),
    ).toBe(false);
  });

  test('trust old and new servers during a rotation from a CA without constraints, and the bridge carries them', async () => {
    const before = await authorityFor();
    const behind = await followedBy(before, DOMAINS);
    const server = await serverOf(behind, now);
    for (const bundle of [before, behind].map((one) => caBundle(one, now)))
      expect(await nodeVerdict(server, bundle, SERVER_NAME)).toBe('ok');
    const evil = await forged(behind, { dnsNames: ['bank.example.org'] });
    expect(opensslTrusts(evil, caBundle(before, now), 'bank.example.org')).toBe(false);
    expect(await nodeVerdict(evil, caBundle(before, now), 'bank.example.org')).not.toBe('ok');
  });

  test('that hold only the root before a new suffix trust its successor for names that both permit', async () => {
    const before = await authorityFor(['svc']);
    const behind = await followedBy(before, DOMAINS);
    const verdictOf = async (dnsNames: readonly string[]) => {
      const order = { authority: behind, keyPair, serial: randomSerial(), now, lifetimeMs: 86_400_000 };
      const { chain } = await issueServingCert({ ...order, dnsNames });
      return await nodeVerdict({ chain, privateKey: keyPair.privateKey }, caBundle(before, now), SERVER_NAME);
    };
    expect(await verdictOf([SERVER_NAME])).toBe('ok');
    expect(await verdictOf([SERVER_NAME, 'shop.apps.example.com'])).not.toBe('ok');
  });

  test('trust a CA without constraints after one with constraints, once they know the new root', async () => {
    const behind = await followedBy(authority);
    expect(await nodeVerdict(await serverOf(behind, now), caBundle(behind, now), SERVER_NAME)).toBe('ok');
  });
});
