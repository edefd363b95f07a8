import { describe, expect, test } from 'vitest';

import { importAuthority } from './imported-ca.ts';
import { type Authority, caBundle } from './authority.ts';
import { after, DAY } from '../durations.ts';
import {
  activated,
  base64,
  firstImported,
  importedFrom,
  preparedImport,
  type Server,
  SERVER_NAME,
  serverOf,
} from '../../../test/support/pki/fixtures.ts';
import {
  dataOf,
  type MadeCa,
  makeCa,
  makeLeaf,
  type WantedCa,
} from '../../../test/support/pki/openssl-ca.ts';
import { hasOpenssl, nodeVerdict, opensslTrusts } from '../../../test/support/trust-verdicts.ts';

// A CA from openssl is valid from the current second on: each test makes some, and all must be valid at this time. Leaves begin
// an hour earlier, so TLS stacks accept them now.
const now = new Date(Date.now() + 30 * 60_000);

const SCOPE = { dnsNames: [SERVER_NAME, `${SERVER_NAME}.cluster.local`], addresses: ['10.96.0.1'] };

/** What openssl makes of a certificate for a server that it signs with this CA. */
const clientsAccept = (ca: MadeCa): boolean =>
  opensslTrusts(
    { chain: makeLeaf(ca, `${SERVER_NAME},IP:${SCOPE.addresses.join()}`).cert },
    ca.cert,
    SERVER_NAME,
  );

const firstOf = async (ca: MadeCa): Promise<Authority> =>
  firstImported(await importedFrom(dataOf(ca), now, SCOPE), now);

const followedBy = async (before: Authority, ca: MadeCa): Promise<Authority> =>
  activated(await preparedImport(before, await importedFrom(dataOf(ca), now, SCOPE), now), now);

const verify = async (server: Server, bundle: string): Promise<void> => {
  expect(await nodeVerdict(server, bundle, SERVER_NAME)).toBe('ok');
  expect(opensslTrusts(server, bundle, SERVER_NAME)).toBe(true);
};

describe.skipIf(!hasOpenssl)('an imported CA', () => {
  test.each([
    ['another subject', '/O=Acme/CN=Acme Root 2'],
    ['the same subject', '/O=Acme/CN=Acme Root'],
  ])(
    'OPA TestSelfSignedCA: old and new clients and servers trust each other after a rotation to a CA with %s',
    async (_how, subject) => {
      const before = await firstOf(makeCa());
      const behind = await followedBy(before, makeCa({ subject }));
      const servers = await Promise.all([before, behind].map((authority) => serverOf(authority, now)));
      for (const server of servers)
        for (const bundle of [before, behind].map((authority) => caBundle(authority, now)))
          await verify(server, bundle);
    },
  );

  test('a CA with path length 0 signs no bridge: clients need the new root, which is published before its first use', async () => {
    const before = await firstOf(makeCa({ constraints: 'critical,CA:TRUE,pathlen:0' }));
    const behind = await followedBy(before, makeCa({ subject: '/CN=Next' }));
    expect(behind.generations[0]?.bridge).toBeUndefined();
    const presented = await serverOf(behind, now);
    expect(await nodeVerdict(presented, caBundle(behind, now), SERVER_NAME)).toBe('ok');
    expect(await nodeVerdict(presented, caBundle(before, now), SERVER_NAME)).not.toBe('ok');
  });

  test.each<[string, () => Readonly<Record<string, string>> | undefined, string]>([
    ['lacks a key', () => ({ 'tls.crt': base64(makeCa().cert) }), 'tls.key: it is missing'],
    [
      'has a key that cannot be parsed',
      () => ({ ...dataOf(makeCa()), 'tls.key': base64('x') }),
      'tls.key: the private key',
    ],
    [
      'has the key of another CA',
      () => ({ ...dataOf(makeCa()), 'tls.key': base64(makeCa().key) }),
      'tls.key: it is not the key of the first certificate in tls.crt',
    ],
    [
      'is not a CA',
      () => dataOf(makeCa({ constraints: 'critical,CA:FALSE' })),
      'tls.crt: it is not the certificate of a CA',
    ],
    [
      'contains two roots',
      () => ({ ...dataOf(makeCa()), 'tls.crt': base64(makeCa().cert + makeCa().cert) }),
      'tls.crt: "O=Acme, CN=Acme Root" is not an issuer of "O=Acme, CN=Acme Root": remove it',
    ],
  ])('a CA that %s is refused, and the message names the key of the Secret', async (_what, data, problem) => {
    const result = await importAuthority(data(), SCOPE, now);
    expect(result).toMatchObject({ kind: 'refused', problem: expect.stringContaining(problem) as string });
  });

  test('OPA TestCAExpiry: an expired CA is refused', async () => {
    expect(await importAuthority(dataOf(makeCa()), SCOPE, after(now, 366 * DAY))).toMatchObject({
      kind: 'refused',
      problem: expect.stringContaining('it ended at') as string,
    });
  });

  test.each<[string, WantedCa, string]>([
    [
      'is for clients only',
      { more: ['extendedKeyUsage=clientAuth'] },
      'tls.crt: its extended key usage lacks serverAuth',
    ],
    [
      'is for any purpose, which OpenSSL does not take for a server',
      { more: ['extendedKeyUsage=anyExtendedKeyUsage'] },
      'tls.crt: its extended key usage lacks serverAuth',
    ],
    [
      'excludes the names of Services',
      { more: ['nameConstraints=critical,excluded;DNS:svc'] },
      `tls.crt: its name constraints exclude ${SERVER_NAME}`,
    ],
    [
      'excludes the addresses of Services',
      { more: ['nameConstraints=critical,excluded;IP:0.0.0.0/0.0.0.0'] },
      'tls.crt: its name constraints exclude the IP address 10.96.0.1',
    ],
    [
      'permits only names of the organisation',
      { more: ['nameConstraints=critical,permitted;DNS:example.com'] },
      `tls.crt: its name constraints exclude ${SERVER_NAME}`,
    ],
    [
      'is not permitted to sign certificates',
      { usage: 'critical,cRLSign' },
      'it is not the certificate of a CA',
    ],
    ['lacks a key usage', { usage: '' }, 'tls.crt: its key usage is missing'],
    ['has constraints that are not critical', { constraints: 'CA:TRUE' }, 'tls.crt: its basic constraints'],
  ])('a CA that %s is refused, as openssl refuses its certificates', async (_what, wanted, problem) => {
    const ca = makeCa(wanted);
    expect(clientsAccept(makeCa())).toBe(true);
    expect(clientsAccept(ca)).toBe(false);
    const result = await importAuthority(dataOf(ca), SCOPE, now);
    expect(result).toMatchObject({ kind: 'refused', problem: expect.stringContaining(problem) as string });
  });

  test.each<[string, WantedCa, string]>([
    ['an Ed25519 key', { newKey: ['-newkey', 'ed25519'] }, 'its key (ed25519)'],
    [
      'a P-521 key',
      { newKey: ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-521'] },
      'its key (ec secp521r1)',
    ],
    ['a short RSA key', { newKey: ['-newkey', 'rsa:1024'] }, 'its key (rsa 1024)'],
    [
      'a key for RSA-PSS',
      { newKey: ['-newkey', 'rsa-pss', '-pkeyopt', 'rsa_keygen_bits:2048'] },
      'its key (rsa-pss 2048)',
    ],
    [
      'a critical extension that Go does not know',
      { more: ['policyConstraints=critical,requireExplicitPolicy:3'] },
      'its critical extension 2.5.29.36 is unknown to the API server',
    ],
    [
      'name constraints that Go cannot check',
      { more: ['nameConstraints=critical,excluded;RID:1.2.3.4'] },
      'its name constraints are not only for DNS names',
    ],
    [
      'name constraints without the cluster domain',
      { more: ['nameConstraints=critical,permitted;DNS:svc'] },
      `its name constraints exclude ${SERVER_NAME}.cluster.local`,
    ],
  ])(
    'a CA with %s is refused, because some clients refuse its certificates',
    async (_what, wanted, problem) => {
      const result = await importAuthority(dataOf(makeCa(wanted)), SCOPE, now);
      expect(result).toMatchObject({ kind: 'refused', problem: expect.stringContaining(problem) as string });
    },
  );

  test.each<[string, WantedCa]>([
    ['a P-384 key', { newKey: ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-384'] }],
    ['an RSA key', { newKey: ['-newkey', 'rsa:2048'] }],
    ['serverAuth and clientAuth', { more: ['extendedKeyUsage=serverAuth,clientAuth'] }],
    [
      'name constraints with a leading dot',
      { more: ['nameConstraints=critical,permitted;DNS:.svc,permitted;DNS:.cluster.local'] },
    ],
    ['an exclusion of other names', { more: ['nameConstraints=critical,excluded;DNS:example.com'] }],
  ])('a CA with %s signs certificates that Node and openssl trust', async (_what, wanted) => {
    const authority = await firstOf(makeCa(wanted));
    await verify(await serverOf(authority, now), caBundle(authority, now));
  });
});
