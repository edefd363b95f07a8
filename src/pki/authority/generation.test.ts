import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, test } from 'vitest';
import { importAuthority, importGeneration, type ImportedAuthority } from './generation.ts';
import { activate, prepare, authorityOf, type Authority } from './authority.ts';
import { caBundle } from './bundle.ts';
import { after, DAY } from '../durations.ts';
import { base64, firstAuthority, SERVER_NAME, serverOf } from '../../../test/support/pki/fixtures.ts';
import { randomSerial } from '../x509/keys.ts';
import { hasOpenssl, nodeVerdict, opensslTrusts } from '../../../test/support/trust-verdicts.ts';

// A CA from openssl is valid from the current second on. One minute later it is valid for certain.
const now = new Date(Date.now() + 60_000);
const folder = mkdtempSync(join(tmpdir(), 'gatehouse-import-'));
afterAll(() => {
  rmSync(folder, { recursive: true });
});
if (!hasOpenssl) console.log('skipped: the tests of imported CAs need openssl on the PATH');

interface MadeCa {
  readonly cert: string;
  readonly key: string;
}

/** A CA that an operator makes with openssl. */
function makeCa(
  options: { readonly subject?: string; readonly constraints?: string; readonly key?: string } = {},
): MadeCa {
  const { subject = '/O=Acme/CN=Acme Root', constraints = 'critical,CA:TRUE', key } = options;
  const [keyFile, certFile] = [join(folder, 'ca.key'), join(folder, 'ca.crt')];
  const newKey = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-keyout', keyFile];
  if (key !== undefined) writeFileSync(keyFile, key);
  execFileSync(
    'openssl',
    [
      ...['req', '-x509', '-days', '365', '-subj', subject, '-out', certFile],
      ...(key === undefined ? newKey : ['-key', keyFile]),
      ...['-addext', `basicConstraints=${constraints}`, '-addext', 'keyUsage=critical,keyCertSign,cRLSign'],
    ],
    { stdio: 'ignore' },
  );
  return { cert: readFileSync(certFile, 'utf8'), key: readFileSync(keyFile, 'utf8') };
}

const dataOf = ({ cert, key }: MadeCa) => ({ 'tls.crt': base64(cert), 'tls.key': base64(key) });

function imported(ca: MadeCa): ImportedAuthority {
  const result = importAuthority(dataOf(ca), now);
  if (result.kind === 'refused') throw new Error(result.problem);
  return result.authority;
}

const firstOf = (ca: MadeCa): Authority =>
  authorityOf(importGeneration(imported(ca), { serial: randomSerial(), now }), now);

function followedBy(authority: Authority, ca: MadeCa): Authority {
  const [previous] = authority.generations;
  const next = importGeneration(imported(ca), { serial: randomSerial(), now, previous });
  return activate(prepare(authority, next, undefined), next.id, now);
}

describe.skipIf(!hasOpenssl)('an imported CA', () => {
  test.each([
    ['another subject', '/O=Acme/CN=Acme Root 2'],
    ['the same subject', '/O=Acme/CN=Acme Root'],
  ])(
    'OPA TestSelfSignedCA: old and new clients and servers trust each other after a rotation to a CA with %s',
    async (_how, subject) => {
      const before = firstOf(makeCa());
      const behind = followedBy(before, makeCa({ subject }));
      const servers = await Promise.all([before, behind].map((authority) => serverOf(authority, now)));
      for (const { chain, keyPair } of servers)
        for (const bundle of [before, behind].map((authority) => caBundle(authority, now))) {
          expect(await nodeVerdict({ chain, privateKey: keyPair.privateKey }, bundle, SERVER_NAME)).toBe(
            'ok',
          );
          expect(opensslTrusts({ chain }, bundle, SERVER_NAME)).toBe(true);
        }
    },
  );

  test('the authority of Gatehouse signs a bridge to an imported CA that replaces it', async () => {
    const before = await firstAuthority(now);
    const { chain, keyPair } = await serverOf(followedBy(before, makeCa()), now);
    const presented = { chain, privateKey: keyPair.privateKey };
    expect(await nodeVerdict(presented, caBundle(before, now), SERVER_NAME)).toBe('ok');
  });

  test('a CA with path length 0 signs no bridge: clients need the new root, which is published before its first use', async () => {
    const before = firstOf(makeCa({ constraints: 'critical,CA:TRUE,pathlen:0' }));
    const behind = followedBy(before, makeCa({ subject: '/CN=Next' }));
    expect(behind.generations[0]?.bridge).toBeUndefined();
    const { chain, keyPair } = await serverOf(behind, now);
    const presented = { chain, privateKey: keyPair.privateKey };
    expect(await nodeVerdict(presented, caBundle(behind, now), SERVER_NAME)).toBe('ok');
    expect(await nodeVerdict(presented, caBundle(before, now), SERVER_NAME)).not.toBe('ok');
  });

  test('a CA with the same key and a renewed certificate is the same generation', () => {
    const ca = makeCa();
    expect(imported(makeCa({ key: ca.key })).id).toBe(imported(ca).id);
  });

  test.each<[string, () => Readonly<Record<string, string>> | undefined, string]>([
    ['has no certificate', () => undefined, 'tls.crt: it is missing'],
    ['has no key', () => ({ 'tls.crt': base64(makeCa().cert) }), 'tls.key: it is missing'],
    [
      'contains garbage',
      () => ({ 'tls.crt': base64('x'), 'tls.key': base64('x') }),
      'tls.crt: it holds 0 certificates',
    ],
    [
      'has a key that cannot be parsed',
      () => ({ ...dataOf(makeCa()), 'tls.key': base64('x') }),
      'tls.key: the private key',
    ],
    [
      'has the key of another CA',
      () => ({ ...dataOf(makeCa()), 'tls.key': base64(makeCa().key) }),
      'tls.key: it is not the key of tls.crt',
    ],
    [
      'is not a CA',
      () => dataOf(makeCa({ constraints: 'critical,CA:FALSE' })),
      'tls.crt: it is not the certificate of a CA',
    ],
    [
      'contains a whole chain',
      () => ({ ...dataOf(makeCa()), 'tls.crt': base64(makeCa().cert + makeCa().cert) }),
      'tls.crt: it holds 2 certificates instead of one',
    ],
  ])('a CA that %s is refused, and the message names the key of the Secret', (_what, data, problem) => {
    const result = importAuthority(data(), now);
    expect(result).toMatchObject({ kind: 'refused', problem: expect.stringContaining(problem) as string });
  });

  test('OPA TestCAExpiry: an expired CA is refused', () => {
    expect(importAuthority(dataOf(makeCa()), after(now, 366 * DAY))).toMatchObject({
      kind: 'refused',
      problem: expect.stringContaining('it ended at') as string,
    });
  });
});
