/** PEM texts and Secrets that somebody has written, or half written. Keys are new in each process: a failure prints its whole input. */
import fc from 'fast-check';

import { AuthorityBroken, parseAuthority, toSecretData } from '../../../src/pki/authority-secret.ts';
import { importAuthority } from '../../../src/pki/authority-import.ts';
import { firstAuthority, rotated, serverOf } from '../../../src/pki/fixtures.ts';
import {
  fingerprintsOf,
  parseCertificatePem,
  parsePrivateKeyPem,
  splitCertificates,
} from '../../../src/pki/pem.ts';
import { mutatedText } from '../mutated.ts';
import { answerOf, fuzzTarget, hold } from '../target.ts';

const NOW = new Date('2026-11-22T00:00:00Z');

const authority = await rotated(await firstAuthority(NOW), NOW);
const server = await serverOf(authority, NOW);
const key = server.keyPair.privateKey;
const stored = toSecretData(authority);

/** So much of a key in a message, and it is no longer a secret. */
const TELLING = 16;
const secrets = [key, ...authority.generations.flatMap((generation) => generation.key ?? [])].flatMap((pem) =>
  pem.split('\n').filter((line) => line.length > TELLING && !line.startsWith('-----')),
);

/** Errors are for people and logs: any will do that keeps the key to itself. */
function isDiscreet(error: unknown): boolean {
  if (!(error instanceof Error) || error instanceof TypeError || error instanceof RangeError) return false;
  const { message } = error;
  return !secrets.some((line) => message.includes(line.slice(0, TELLING)));
}

export const pem = fuzzTarget(
  'PEM',
  4,
  mutatedText([server.chain, key, server.chain + key, `${key}${server.chain}`]),
  (text) => {
    const certificates = answerOf(() => splitCertificates(text), isDiscreet);
    const prints = fingerprintsOf(text);
    hold((certificates === undefined) === (prints === undefined), () => 'it is broken for the one only');
    const normal = answerOf(() => parseCertificatePem(text), isDiscreet);
    if (normal !== undefined) hold(fingerprintsOf(normal) === prints, () => 'other certificates than before');
    const parsed = answerOf(() => parsePrivateKeyPem(text), isDiscreet);
    if (parsed !== undefined) hold(parsePrivateKeyPem(parsed) === parsed, () => 'another key than before');
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

export const authoritySecret = fuzzTarget('Secret of an authority', 4, secret, (data) => {
  const read = answerOf(
    () => parseAuthority(data),
    (error) => error instanceof AuthorityBroken && isDiscreet(error),
  );
  if (read !== undefined) parseAuthority(toSecretData(read));
  const result = importAuthority(data, NOW);
  hold(
    result.kind === 'imported' || isDiscreet(new Error(result.problem)),
    () => 'the problem holds a part of a key',
  );
});
