import { beforeAll, describe, expect, test } from 'vitest';

import {
  base64,
  firstAuthority,
  rotationState,
  SERVER_NAME,
  serverOf,
  activated,
  firstImported,
  importedFrom,
  preparedImport,
  type Server,
} from '../../../test/support/pki/fixtures.ts';
import { testTrust } from '../../../test/support/pki/trust-matrix.ts';
import { dataOf, type MadeCa, makeCa } from '../../../test/support/pki/openssl-ca.ts';
import { hasOpenssl, nodeVerdict } from '../../../test/support/trust-verdicts.ts';
import { after, DAY, HOUR } from '../durations.ts';
import { splitCertificates } from '../x509/pem.ts';
import { type Authority, bridgesFrom, caBundle, distrustedWith, renewRoot, signingOf } from './authority.ts';
import { type ImportedAuthority, rootOf } from './generation.ts';
import { importAuthority } from './imported-ca.ts';
import { planRotation, refusal } from './rotation-plan.ts';
import { parseAuthority, toSecretData } from './secret.ts';

const SCOPE = { dnsNames: [SERVER_NAME], addresses: [] };
// A CA from openssl is valid from the current second on: each test makes some, and all must be valid at this time. Leaves begin
// an hour earlier, so TLS stacks accept them now.
const now = new Date(Date.now() + 30 * 60_000);

const intermediate = (issuer: MadeCa, name: string, constraints = 'critical,CA:TRUE,pathlen:0'): MadeCa =>
  makeCa({ issuer, subject: `/O=Acme/CN=${name}`, constraints });

const read = (data: Readonly<Record<string, string>>) => importedFrom(data, now);

const followedBy = async (before: Authority, imported: ImportedAuthority): Promise<Authority> =>
  activated(await preparedImport(before, imported, now), now);

const verdict = async (authority: Authority, bundle: string): Promise<string> =>
  nodeVerdict(await serverOf(authority, now), bundle, SERVER_NAME);

describe.skipIf(!hasOpenssl)('an intermediate CA', () => {
  let root: MadeCa;
  let otherRoot: MadeCa;
  let issuing: MadeCa;
  beforeAll(() => {
    root = makeCa();
    otherRoot = makeCa({ subject: '/O=Acme/CN=Acme Root 2' });
    issuing = intermediate(root, 'Issuing', 'critical,CA:TRUE');
  });

  test.each<[string, () => Readonly<Record<string, string>>]>([
    ['the root in ca.crt, as cert-manager writes it', () => dataOf(issuing, root)],
    ['the root after it in tls.crt', () => dataOf(issuing, undefined, [root])],
    ['the root in both', () => dataOf(issuing, root, [root])],
    [
      'more than its root in ca.crt',
      () => ({ ...dataOf(issuing, root), 'ca.crt': base64(otherRoot.cert + root.cert) }),
    ],
  ])(
    'with %s: the bundle has the root, and servers send the intermediate CA and never the root',
    async (_how, data) => {
      const authority = await firstImported(await read(data()), now);
      const bundle = caBundle(authority, now);
      const { chain } = await serverOf(authority, now);
      expect(splitCertificates(bundle).map(({ subject }) => subject)).toEqual(['O=Acme\nCN=Acme Root']);
      expect(
        splitCertificates(chain)
          .slice(1)
          .map(({ subject }) => subject),
      ).toEqual(['O=Acme\nCN=Issuing']);
      expect(await verdict(authority, bundle)).toBe('ok');
      expect(await verdict(authority, root.cert)).toBe('ok');
    },
  );

  describe('in a rotation from the CA of Gatehouse to an intermediate CA, a renewed one of the same root, and one of another root', () => {
    const steps: Authority[] = [];
    let servers: readonly Server[];
    beforeAll(async () => {
      const own = await firstAuthority(now);
      const policy = intermediate(otherRoot, 'Policy', 'critical,CA:TRUE,pathlen:1');
      const one = await followedBy(own, await read(dataOf(intermediate(root, 'One'), root)));
      const two = await followedBy(one, await read(dataOf(issuing, root)));
      const three = await followedBy(
        two,
        await read(dataOf(intermediate(policy, 'Three'), otherRoot, [policy])),
      );
      steps.push(own, one, two, three);
      servers = await Promise.all(steps.map((authority) => serverOf(authority, now)));
    });
    const step = (index: number): Authority => steps[index] ?? { generations: [] };
    const cells = [0, 1, 2, 3].flatMap((server) => [0, 1, 2, 3].map((client) => ({ server, client })));
    testTrust(cells, ({ server, client }) => ({
      server: servers[server] ?? { chain: '', privateKey: '' },
      bundle: caBundle(step(client), now),
    }));

    test('the Secret holds the chain', () => {
      for (const authority of steps) expect(parseAuthority(toSecretData(authority))).toEqual(authority);
    });

    test('a distrusted CA takes along the older generations whose root leads to it', () => {
      const ids = step(2).generations.map(({ id }) => id);
      expect(distrustedWith(step(2), ids[0] ?? '')).toEqual(ids);
      expect(distrustedWith(step(2), ids[1] ?? '')).toEqual(ids.slice(1));
    });
  });

  test('certificates end before the first CA of the chain', async () => {
    const short = makeCa({ issuer: root, subject: '/CN=Short', days: 30 });
    const authority = await firstImported(await read(dataOf(short, root)), now);
    const end = splitCertificates(short.cert)[0]?.validToDate;
    expect(signingOf(authority, now)).toMatchObject({ notAfter: end, validUntil: end });
    const late = after(now, 30 * DAY - 2 * HOUR);
    const { notAfter } = await serverOf(authority, late);
    expect(notAfter).toEqual(end && after(end, -HOUR));
  });

  test('a renewed certificate of the same CA replaces the old one in every chain', async () => {
    const before = await firstImported(await read(dataOf(issuing, root)), now);
    const renewed = await read(
      dataOf(makeCa({ issuer: root, subject: '/O=Acme/CN=Issuing', key: issuing.key }), root),
    );
    const behind = renewRoot(before, renewed, now);
    expect(bridgesFrom(behind, renewed.id, now)).toEqual([renewed.certificate]);
    expect(behind.generations.map((generation) => rootOf(generation).raw)).toEqual([
      splitCertificates(root.cert)[0]?.raw,
    ]);
  });

  test('a renewed root is adopted in place; the same key under another root is refused', async () => {
    const authority = await firstImported(await read(dataOf(issuing, root)), now);
    const state = rotationState({ authority, now });
    const renewed = await read(dataOf(issuing, makeCa({ key: root.key, days: 700 })));
    expect(planRotation({ ...state, imported: renewed })).toEqual({ kind: 'renew-root' });
    const constraints = 'critical,CA:TRUE';
    const moved = makeCa({ issuer: otherRoot, subject: '/O=Acme/CN=Issuing', key: issuing.key, constraints });
    const imported = await read(dataOf(moved, otherRoot));
    expect(planRotation({ ...state, imported })).toMatchObject({ kind: 'none' });
    expect(refusal({ ...state, imported })).toContain(
      'root than before and the same key: put a CA with a new key',
    );
  });

  test.each<[string, () => Readonly<Record<string, string>>, string]>([
    [
      'its root is missing',
      () => dataOf(issuing),
      'tls.crt: no certificate leads from "O=Acme, CN=Issuing", issued by "O=Acme, CN=Acme Root", to a self-signed root',
    ],
    [
      'a stranger follows it',
      () => dataOf(issuing, root, [otherRoot]),
      'tls.crt: "O=Acme, CN=Acme Root 2" is not an issuer of "O=Acme, CN=Issuing": remove it',
    ],
    [
      'the root comes first',
      () => ({ ...dataOf(root, root, [issuing]), 'tls.key': base64(issuing.key) }),
      'tls.crt: "O=Acme, CN=Issuing" is not an issuer of "O=Acme, CN=Acme Root": remove it',
    ],
    [
      'ca.crt is garbage',
      () => ({ ...dataOf(issuing, root), 'ca.crt': base64('-----BEGIN CERTIFICATE-----') }),
      'ca.crt: line 1: the certificate is cut off',
    ],
    [
      'the path length of its root excludes it',
      () => {
        const short = makeCa({ constraints: 'critical,CA:TRUE,pathlen:0' });
        return dataOf(intermediate(short, 'Below'), short);
      },
      'tls.crt: "O=Acme, CN=Acme Root": its path length is 0, and the number of CAs below it is 1',
    ],
    [
      'its root permits other names only',
      () => {
        const limited = makeCa({ more: ['nameConstraints=critical,permitted;DNS:example.com'] });
        return dataOf(intermediate(limited, 'Below'), limited);
      },
      `tls.crt: its name constraints exclude ${SERVER_NAME}`,
    ],
    [
      'it is signed with SHA-1',
      () => dataOf(makeCa({ issuer: root, subject: '/CN=Weak', digest: 'sha1' }), root),
      'tls.crt: "CN=Weak": the algorithm of its signature (1.2.840.10045.4.1)',
    ],
  ])('is refused if %s', async (_why, data, problem) => {
    const result = await importAuthority(data(), SCOPE, now);
    expect(result).toMatchObject({ kind: 'refused', problem: expect.stringContaining(problem) as string });
  });
});
