/** PEM texts and Secrets with arbitrary content. */
import fc from 'fast-check';

import { AuthorityBroken, parseAuthority, toSecretData } from '../../../src/pki/authority/secret.ts';
import { importAuthority } from '../../../src/pki/authority/imported-ca.ts';
import {
  fingerprintsOf,
  parseCertificatePem,
  parsePrivateKeyPem,
  splitCertificates,
} from '../../../src/pki/x509/pem.ts';
import { authority, bundle, isDiscreet, key, KEYS, NOW, server } from '../keys.ts';
import { mutatedText } from '../mutated.ts';
import { answerOf, fuzzTarget, hold } from '../target.ts';

const stored = toSecretData(authority);

export const pem = fuzzTarget(
  'PEM',
  25,
  mutatedText([server.chain, key, server.chain + key, `${key}${server.chain}`]),
  (text) => {
    const certificates = answerOf(() => splitCertificates(text), isDiscreet);
    const prints = fingerprintsOf(text);
    hold(
      (certificates === undefined) === (prints === undefined),
      () => 'only one of the two functions accepts it',
    );
    const normal = answerOf(() => parseCertificatePem(text), isDiscreet);
    if (normal !== undefined) hold(fingerprintsOf(normal) === prints, () => 'the certificates have changed');
    const parsed = answerOf(() => parsePrivateKeyPem(text), isDiscreet);
    if (parsed !== undefined) hold(parsePrivateKeyPem(parsed) === parsed, () => 'the key has changed');
  },
);

const certificates = splitCertificates(server.chain + bundle);
const NOISE = [
  '',
  '\n',
  '\r\n',
  'subject=CN = db\n',
  '# a bundle\n\n',
  '-----\n',
  '\ufeff',
  '\0',
  '-----BEGIN X-----\n',
];
const block = (der: Uint8Array, width: number, end: string): string => {
  const lines =
    Buffer.from(der)
      .toString('base64')
      .match(new RegExp(`.{1,${width}}`, 'g')) ?? [];
  return ['-----BEGIN CERTIFICATE-----', ...lines, '-----END CERTIFICATE-----', ''].join(end);
};

/** The parser finds all certificates in order, for any layout and any text between them. */
export const pemBundle = fuzzTarget(
  'PEM bundle',
  15,
  fc.array(
    fc.tuple(
      fc.nat({ max: certificates.length - 1 }),
      fc.constantFrom(64, 76, 1, 10_000),
      fc.constantFrom('\n', '\r\n', '\n\n', ' \n\t'),
      fc.constantFrom(...NOISE),
    ),
    { maxLength: 6 },
  ),
  (parts) => {
    const wanted = parts.flatMap(([index]) => certificates[index] ?? []);
    const text = parts
      .map(([index, width, end, noise]) => noise + block(certificates[index]?.raw ?? Buffer.of(), width, end))
      .join('');
    const found = splitCertificates(text).map(({ fingerprint256 }) => fingerprint256);
    hold(
      found.join() === wanted.map(({ fingerprint256 }) => fingerprint256).join(),
      () => `it found ${found.length}`,
    );
  },
);

/** The parser returns the key in any format, or an error that reveals no part of the key. */
export const privateKeys = fuzzTarget(
  'private key',
  15,
  fc.oneof(
    fc
      .tuple(mutatedText(KEYS), fc.constantFrom('\n', '\r\n'), fc.constantFrom('', server.chain))
      .map(([text, end, before]) => before + text.replaceAll('\n', end)),
    fc.constantFrom(...KEYS),
  ),
  (text) => {
    const parsed = answerOf(() => parsePrivateKeyPem(text), isDiscreet);
    hold(parsed !== undefined || !KEYS.slice(0, -2).includes(text), () => 'a valid key was refused');
    hold(
      parsed === undefined || !KEYS.slice(-2).includes(text),
      () => 'an encrypted key was read without its password',
    );
    if (parsed !== undefined) hold(parsePrivateKeyPem(parsed) === parsed, () => 'the key has changed');
  },
);

const keys = Object.keys(stored);
const secret: fc.Arbitrary<Readonly<Record<string, string>>> = fc
  .array(fc.tuple(fc.constantFrom(...keys), mutatedText(Object.values(stored)), fc.boolean()), {
    maxLength: 3,
  })
  .map((edits) => {
    const data = new Map(Object.entries(stored));
    for (const [name, text, isGone] of edits) {
      if (isGone) data.delete(name);
      else data.set(name, text);
    }
    return Object.fromEntries(data);
  });

export const authoritySecret = fuzzTarget('Secret of an authority', 8, secret, async (data) => {
  const read = answerOf(
    () => parseAuthority(data),
    (error) => error instanceof AuthorityBroken && isDiscreet(error),
  );
  if (read !== undefined) parseAuthority(toSecretData(read));
  const result = await importAuthority(data, { dnsNames: ['db.prod.svc'], addresses: [] }, NOW);
  hold(
    result.kind === 'imported' || isDiscreet(new Error(result.problem)),
    () => 'the problem contains a part of a key',
  );
});
