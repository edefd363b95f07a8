import { generateKeyPairSync } from 'node:crypto';
import { beforeAll, expect, test } from 'vitest';
import { caBundle } from '../authority/authority.ts';
import { firstAuthority, rotated, withUnreadableEnd } from '../../../test/support/pki/fixtures.ts';
import { generateKeyPair } from './keys.ts';
import {
  holdsSameCertificates,
  parseCertificatePem,
  parsePrivateKeyPem,
  splitCertificates,
  toCertificatePem,
  type CertificatePem,
} from './pem.ts';

const now = new Date('2026-03-01T00:00:00Z');
let bundle: CertificatePem;

beforeAll(async () => {
  bundle = caBundle(await rotated(await firstAuthority(now), now), now);
});

test('a certificate with an end that is no time is refused', () => {
  expect(() => splitCertificates(withUnreadableEnd(bundle))).toThrow(
    'the validity of certificate 1 cannot be read',
  );
});

test.each([
  ['CRLF line ends', (pem: string) => pem.replaceAll('\n', '\r\n')],
  ['text before the certificate', (pem: string) => `subject=CN = ca\n${pem}`],
  ['garbage after the certificate', (pem: string) => `${pem}garbage`],
  ['no final line end', (pem: string) => pem.trimEnd()],
  ['lines with another length', (pem: string) => pem.replace(/([A-Za-z0-9+/=]{64})\n/g, '$1')],
  ['another PEM block', (pem: string) => `-----BEGIN X-----\nAAAA\n-----END X-----\n${pem}`],
])('%s is normalised', (_what, disfigure) => {
  const disfigured = disfigure(bundle);
  expect(disfigured).not.toBe(bundle);
  expect(parseCertificatePem(disfigured)).toBe(bundle);
  expect(holdsSameCertificates(disfigured, bundle)).toBe(true);
});

test.each([
  ['empty', () => '', 'there is no PEM certificate'],
  ['cut off', () => bundle.slice(0, -40), 'certificate 2 is cut off'],
  [
    'cut off in the middle',
    () => bundle.replace('-----END CERTIFICATE-----\n', ''),
    'certificate 1 is not base64',
  ],
  [
    'other data in a certificate block',
    () => '-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----',
    'certificate 1 cannot be parsed',
  ],
])('a bundle that is %s is refused', (_what, broken, message) => {
  expect(() => parseCertificatePem(broken())).toThrow(message);
});

test('a text of begin lines only is refused quickly', () => {
  const started = process.cpuUsage();
  expect(() => splitCertificates('-----BEGIN CERTIFICATE-----\n'.repeat(35_000))).toThrow('cut off');
  expect(process.cpuUsage(started).user).toBeLessThan(500_000);
});

test('bundles are compared as sets of certificates', () => {
  const [first, second] = splitCertificates(bundle);
  if (first === undefined || second === undefined) throw new Error('the bundle is too short');
  expect(holdsSameCertificates(toCertificatePem([second, first]), bundle)).toBe(true);
  expect(holdsSameCertificates(toCertificatePem([first]), bundle)).toBe(false);
  expect(holdsSameCertificates('', bundle)).toBe(false);
  expect(holdsSameCertificates(bundle.slice(0, -40), bundle)).toBe(false);
});

test('a private key in an older format is converted to PKCS#8', () => {
  const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'prime256v1' });
  const sec1 = privateKey.export({ type: 'sec1', format: 'pem' }).toString();
  expect(parsePrivateKeyPem(sec1)).toBe(privateKey.export({ type: 'pkcs8', format: 'pem' }));
});

test('text that is not a private key is refused, and the message does not contain it', async () => {
  const { privateKey, publicKey } = await generateKeyPair('ECDSA-P256');
  const broken = privateKey.replace(/\n[^-]{20}/, '\n');
  expect(() => parsePrivateKeyPem(broken)).toThrow(/^the private key cannot be parsed$/);
  expect(() => parsePrivateKeyPem(publicKey.export({ type: 'spki', format: 'pem' }).toString())).toThrow();
  expect(() => parsePrivateKeyPem(bundle)).toThrow();
});
