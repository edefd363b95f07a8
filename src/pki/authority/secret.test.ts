import { createPublicKey } from 'node:crypto';
import { beforeAll, expect, test } from 'vitest';

import type { SecretData } from '../secret-data.ts';
import { type Generation, openKey, rootOf, signWith } from './generation.ts';
import { AuthorityBroken, parseAuthority, toSecretData } from './secret.ts';
import type { Authority } from './authority.ts';
import { commonName, signCertificate, type Subject, subjectOf } from '../x509/certificate.ts';
import { base64, firstAuthority, prepared, rotated, serverOf } from '../../../test/support/pki/fixtures.ts';
import { generateKeyPair, randomSerial } from '../x509/keys.ts';
import { type PrivateKeyPem, splitCertificates, toCertificatePem } from '../x509/pem.ts';

const now = new Date('2026-03-01T12:00:00.123Z');
let full: Authority; // pending, active, retiring
let data: SecretData;
let ids: readonly [pending: string, active: string, retiring: string];

beforeAll(async () => {
  full = await prepared(await rotated(await firstAuthority(now), now), now);
  data = toSecretData(full);
  const [pending = '', active = '', retiring = ''] = full.generations.map(({ id }) => id);
  ids = [pending, active, retiring];
});

const text = (key: string) => Buffer.from(data[key] ?? '', 'base64').toString();
const list = () => JSON.parse(text('generations.json')) as Record<string, unknown>[];
const withList = (entries: unknown) => ({ ...data, 'generations.json': base64(JSON.stringify(entries)) });
const without = (key: string) => Object.fromEntries(Object.entries(data).filter(([name]) => name !== key));

test('OPA TestSecretRoundTrip: a stored authority is read back unchanged', () => {
  expect(parseAuthority(data)).toEqual(full);
  expect(toSecretData(parseAuthority(data))).toEqual(data);
});

test('users can read the list of generations', () => {
  expect(list().map(({ state }) => state)).toEqual(['pending', 'active', 'retiring']);
  expect(list()[1]).toMatchObject({ id: ids[1], createdAt: '2026-03-01T12:00:00.123Z' });
  expect(Object.keys(data).sort()).toEqual(
    ['generations.json', `${ids[0]}.bridge.crt`, `${ids[0]}.crt`, `${ids[0]}.key`]
      .concat([`${ids[1]}.bridge.crt`, `${ids[1]}.crt`, `${ids[1]}.key`, `${ids[2]}.crt`])
      .sort(),
  );
});

test('keys that do not belong to a generation are ignored', () => {
  expect(parseAuthority({ ...data, 'tls.crt': base64('garbage') })).toEqual(full);
});

test('an older version does not list the optional keys: its authority is read', () => {
  const entries = list().map((entry) => ({ ...entry, files: undefined }));
  expect(parseAuthority(withList(entries))).toEqual(full);
});

const breakages: readonly [string, () => SecretData, () => string][] = [
  ['lacks data', () => ({}), () => 'generations.json: it is missing'],
  [
    'has a list that is not JSON',
    () => ({ ...data, 'generations.json': base64('{') }),
    () => 'generations.json: ',
  ],
  ['has a list of the wrong type', () => withList({}), () => 'generations.json: it is not a list'],
  [
    'has an entry with a path as its id',
    () => withList([{ ...list()[1], id: '../../etc' }]),
    () => 'entry 0 needs an id of 8 hexadecimal digits',
  ],
  [
    'has a state that does not exist',
    () => withList([{ ...list()[1], state: 'toString' }]),
    () => 'entry 0 has a state other than pending, active, retiring',
  ],
  [
    'has an invalid time',
    () => withList([{ ...list()[1], createdAt: 'yesterday' }]),
    () => 'createdAt that is not a time',
  ],
  ['lacks an active generation', () => withList([list()[0], list()[2]]), () => 'no generation is active'],
  [
    'has two active generations',
    () => withList(list().map((entry) => ({ ...entry, state: 'active' }))),
    () => `more than one generation is active: ${ids.join(', ')}`,
  ],
  [
    'lists a generation twice',
    () => withList([list()[1], list()[1]]),
    () => `generation ${ids[1]} is listed twice`,
  ],
  ['is in the wrong order', () => withList(list().reverse()), () => 'newest first'],
  ['lacks a certificate', () => without(`${ids[2]}.crt`), () => `${ids[2]}.crt: it is missing`],
  [
    'has a certificate that cannot be parsed (cert-manager Test__caRequiresRegeneration: failed to parse)',
    () => ({ ...data, [`${ids[1]}.crt`]: base64('garbage') }),
    () => `${ids[1]}.crt: it holds 0 certificates instead of one`,
  ],
  [
    'lost a bridge',
    () => without(`${ids[0]}.bridge.crt`),
    () => `${ids[0]}.bridge.crt: it is missing, and generations.json lists it`,
  ],
  [
    'lost its history',
    () => ({
      ...data,
      'generations.json': toSecretData({ ...full, gone: ['0badc0de'] })['generations.json'] ?? '',
    }),
    () => 'history.json: it is missing, and generations.json lists it',
  ],
  ['lacks the active key', () => without(`${ids[1]}.key`), () => `${ids[1]}.key: it is missing`],
  ['lacks the pending key', () => without(`${ids[0]}.key`), () => `${ids[0]}.key: it is missing`],
  [
    'has the key of another generation (cert-manager Test__caRequiresRegeneration: different data)',
    () => ({ ...data, [`${ids[1]}.key`]: base64(text(`${ids[0]}.key`)) }),
    () => `${ids[1]}.key: it is not the private key of ${ids[1]}.crt`,
  ],
  [
    'has a bridge where a root should be',
    () => ({ ...data, [`${ids[1]}.crt`]: base64(text(`${ids[1]}.bridge.crt`)) }),
    () => `${ids[1]}.crt: it is not self-signed`,
  ],
  [
    'has the bridge of another generation',
    () => ({ ...data, [`${ids[0]}.bridge.crt`]: base64(text(`${ids[1]}.bridge.crt`)) }),
    () => `${ids[0]}.bridge.crt: its key is not the key of the root in`,
  ],
  [
    'has a root where a bridge should be',
    () => ({ ...data, [`${ids[0]}.bridge.crt`]: base64(text(`${ids[0]}.crt`)) }),
    () => `${ids[0]}.bridge.crt: it is not signed by the generation before it, ${ids[1]}`,
  ],
];

test.each(breakages)(
  'an authority that %s is broken, and the error names the key of the Secret',
  (_what, broken, message) => {
    let error: unknown;
    try {
      parseAuthority(broken());
    } catch (thrown) {
      error = thrown;
    }
    expect(error).toBeInstanceOf(AuthorityBroken);
    expect(String(error)).toContain(message());
    expect(String(error)).toContain('Restore the secret');
  },
);

/** A CA certificate for the public key of `subject` that claims `issuer`, signed with any `privateKey`. */
async function forged(subject: Generation, issuer: Subject, privateKey: PrivateKeyPem): Promise<string> {
  const root = rootOf(subject);
  const template = { subject: subjectOf(root), publicKey: root.publicKey, serial: randomSerial() };
  const validity = { notBefore: now, notAfter: root.validToDate, purpose: { kind: 'authority' } } as const;
  const publicKey = createPublicKey(privateKey);
  const sign = signWith(privateKey);
  return base64(await signCertificate({ ...template, ...validity }, { ...issuer, publicKey, sign }));
}

test('a bridge needs both a valid signature and the right names', async () => {
  const [pending, active] = full.generations;
  const { privateKey: strange } = await generateKeyPair('ECDSA-P256');
  if (pending === undefined || active?.key === undefined) throw new Error('the authority is too short');
  const issuer = subjectOf(rootOf(active));
  const other = { ...issuer, name: commonName('another-ca') };

  const notSelfSigned = { ...data, [`${ids[1]}.crt`]: await forged(active, issuer, strange) };
  expect(() => parseAuthority(notSelfSigned)).toThrow('not self-signed');
  for (const bridge of [
    await forged(pending, issuer, strange),
    await forged(pending, other, openKey(active.key)),
  ])
    expect(() => parseAuthority({ ...data, [`${ids[0]}.bridge.crt`]: bridge })).toThrow(
      `it is not signed by the generation before it, ${ids[1]}`,
    );
  const genuine = { ...data, [`${ids[0]}.bridge.crt`]: await forged(pending, issuer, openKey(active.key)) };
  expect(() => parseAuthority(genuine)).not.toThrow();
});

test('cert-manager Test__caRequiresRegeneration: not a CA: a serving cert cannot be the root of an authority', async () => {
  const [leaf] = splitCertificates((await serverOf(full, now)).chain);
  if (leaf === undefined) throw new Error('the chain is empty');
  const broken = { ...data, [`${ids[1]}.crt`]: base64(toCertificatePem([leaf])) };
  expect(() => parseAuthority(broken)).toThrow(`${ids[1]}.crt: it is not the certificate of a CA`);
});
