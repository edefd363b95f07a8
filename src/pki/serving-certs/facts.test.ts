import fc from 'fast-check';
import { beforeAll, expect, test } from 'vitest';

import { openKey } from '../authority/generation.ts';
import { activeGeneration, type Authority, caBundle } from '../authority/authority.ts';
import { after, DAY } from '../durations.ts';
import {
  base64,
  firstAuthority,
  rotated,
  type Server,
  SERVER_NAME,
  serverOf,
  withUnreadableEnd,
} from '../../../test/support/pki/fixtures.ts';
import { fingerprintsOf, firstCertificate } from '../x509/pem.ts';
import { readServingCert, summarizeServingCert } from './facts.ts';

const now = new Date('2026-03-01T12:00:00Z');
let before: Authority;
let authority: Authority;
let server: Server;
let data: Readonly<Record<string, string>>;

const dataOf = ({ chain, keyPair }: Server, bundle: string) => ({
  'tls.crt': base64(chain),
  'tls.key': base64(keyPair.privateKey),
  'ca.crt': base64(bundle),
});

beforeAll(async () => {
  before = await firstAuthority(now);
  authority = await rotated(before, now);
  server = await serverOf(authority, now, 'ECDSA-P384');
  data = dataOf(server, caBundle(authority, now));
});

test('the facts describe the cert in the Secret', () => {
  const [active] = authority.generations;
  expect(readServingCert(data, authority)).toEqual({
    kind: 'usable',
    purpose: 'serving',
    leaf: firstCertificate(server.chain).raw.toString('base64'),
    dnsNames: [SERVER_NAME],
    notBefore: new Date('2026-03-01T11:00:00Z'),
    notAfter: after(now, DAY),
    addresses: [],
    algorithm: 'ECDSA-P384',
    signedBy: active?.id,
    bridges: [active?.bridge && firstCertificate(active.bridge).fingerprint256],
    bundle: fingerprintsOf(caBundle(authority, now)),
    damaged: [],
  });
});

test('a summary contains nothing of the private key', () => {
  const kept = JSON.stringify(summarizeServingCert(data));
  const secretPart = server.keyPair.privateKey.split('\n')[2] ?? '';
  expect(secretPart.length).toBeGreaterThan(20);
  expect(kept).not.toContain(secretPart);
});

test('the signer is the generation whose key made the signature', async () => {
  const facts = async (signer: Authority) =>
    readServingCert(dataOf(await serverOf(signer, now), ''), authority);
  expect(await facts(before)).toMatchObject({ signedBy: activeGeneration(before).id });
  expect(await facts(await firstAuthority(now))).toMatchObject({ kind: 'usable', signedBy: undefined });
});

test.each([
  ['there is no data', undefined],
  ['the data is empty', {}],
  ['an API server filled in empty values', { 'tls.crt': '', 'tls.key': '' }],
  ['there are only keys of other writers', { password: 'c2VjcmV0' }],
])('a Secret lacks a cert if %s', (_when, nothing) => {
  expect(readServingCert(nothing, authority)).toBeUndefined();
});

const root = () => activeGeneration(authority);
const keyOfRoot = () => {
  const { key } = root();
  return key === undefined ? '' : openKey(key);
};
test.each([
  ['lacks its key', () => ({ 'tls.key': '' }), 'Unreadable', 'tls.key is missing'],
  ['lacks its cert', () => ({ 'tls.crt': '' }), 'Unreadable', 'tls.crt is missing'],
  [
    'has a cert with an end that is no time',
    () => ({ 'tls.crt': base64(withUnreadableEnd(server.chain)) }),
    'Unreadable',
    'tls.crt: line 1: the validity of the certificate',
  ],
  ['has garbage as its cert', () => ({ 'tls.crt': base64('x') }), 'Unreadable', 'tls.crt: there is no PEM'],
  [
    'has a truncated cert',
    () => ({ 'tls.crt': base64(server.chain.slice(0, 200)) }),
    'Unreadable',
    'tls.crt: line 1: the certificate is cut off',
  ],
  ['has garbage as its key', () => ({ 'tls.key': base64('x') }), 'Unreadable', 'tls.key: the private key'],
  [
    'has the key of another cert',
    () => ({ 'tls.key': base64(keyOfRoot()) }),
    'KeyMismatch',
    'tls.key is not the key of the certificate in tls.crt',
  ],
  [
    'has the root as its cert',
    () => ({ 'tls.crt': base64(root().certificate), 'tls.key': base64(keyOfRoot()) }),
    'WrongUsage',
    'neither servers nor clients',
  ],
])('a Secret that %s is unusable, and the facts give the reason', (_what, change, reason, message) => {
  const facts = readServingCert({ ...data, ...change() }, authority);
  expect(facts).toMatchObject({ kind: 'unusable', reason });
  expect(facts?.kind === 'unusable' && facts.message).toContain(message);
});

test('a cert with one changed byte never counts as the issued one', () => {
  const der = Buffer.from(server.chain.split('-----')[2] ?? '', 'base64');
  fc.assert(
    fc.property(fc.nat(der.length - 1), fc.integer({ min: 1, max: 255 }), (position, flip) => {
      const changed = Buffer.from(der);
      changed[position] = (changed[position] ?? 0) ^ flip;
      const body = changed.toString('base64');
      const facts = readServingCert(
        { ...data, 'tls.crt': base64(`-----BEGIN CERTIFICATE-----\n${body}\n-----END CERTIFICATE-----\n`) },
        authority,
      );
      expect(facts?.kind === 'usable' ? facts.signedBy : undefined).toBeUndefined();
    }),
  );
});
