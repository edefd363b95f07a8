import { execFileSync } from 'node:child_process';
import { generateKeyPairSync } from 'node:crypto';
import { beforeAll, expect, test } from 'vitest';
import { caBundle } from '../authority/authority.ts';
import { firstAuthority, rotated, withUnreadableEnd } from '../../../test/support/pki/fixtures.ts';
import { generateKeyPair } from './keys.ts';
import {
  holdsSameCertificates,
  parseCertificatePem,
  parsePrivateKeyPem,
  readableCertificates,
  splitCertificates,
  toCertificatePem,
  type CertificatePem,
} from './pem.ts';

const BEGIN = '-----BEGIN CERTIFICATE-----';
const now = new Date('2026-03-01T00:00:00Z');
let bundle: CertificatePem;

beforeAll(async () => {
  bundle = caBundle(await rotated(await firstAuthority(now), now), now);
});

test('a certificate with an end that is no time is refused', () => {
  expect(() => splitCertificates(withUnreadableEnd(bundle))).toThrow(
    'line 1: the validity of the certificate cannot be read',
  );
});

test.each([
  ['CRLF line ends', (pem: string) => pem.replaceAll('\n', '\r\n')],
  ['text before the certificate', (pem: string) => `subject=CN = ca\n${pem}`],
  ['garbage after the certificate', (pem: string) => `${pem}garbage`],
  ['no final line end', (pem: string) => pem.trimEnd()],
  ['lines with another length', (pem: string) => pem.replace(/([A-Za-z0-9+/=]{64})\n/g, '$1')],
  ['another PEM block', (pem: string) => `-----BEGIN X-----\nAAAA\n-----END X-----\n${pem}`],
  ['a request for a certificate', (pem: string) => `${pem}${pem.replaceAll('CATE--', 'CATE REQUEST--')}`],
  ['a byte order mark', (pem: string) => `\uFEFF${pem}`],
  ['indentation', (pem: string) => pem.replaceAll(/^/gm, '  ')],
  ['no line ends', (pem: string) => pem.replaceAll('\n', '')],
  ['the label X509 CERTIFICATE', (pem: string) => pem.replaceAll('CERTIFICATE', 'X509 CERTIFICATE')],
  ['the label TRUSTED CERTIFICATE', (pem: string) => pem.replaceAll('CERTIFICATE', 'TRUSTED CERTIFICATE')],
  ['an unfinished PEM block before it', (pem: string) => `-----BEGIN X-----\n${pem}`],
  ['dashes and a null byte before it', (pem: string) => `-----\n\0\n${pem}`],
  ['spaces at line ends, and tabs', (pem: string) => pem.replaceAll('\n', ' \n\t')],
  [
    'one character a line',
    (pem: string) => pem.replace(/(?<=^-+BEGIN.*\n)[^-]+/gm, (der) => Array.from(der).join('\n')),
  ],
  ['a decorative line', (pem: string) => `--- BEGIN certificates of the team ---\n${pem}`],
])('%s is normalised', (_what, disfigure) => {
  const disfigured = disfigure(bundle);
  expect(disfigured).not.toBe(bundle);
  expect(parseCertificatePem(disfigured)).toBe(bundle);
});

test.each([
  ['empty', () => '', 'there is no PEM certificate'],
  ['cut off', () => bundle.slice(0, -40), /^line (?!1:)\d+: the certificate is cut off/],
  [
    'cut off in the middle',
    () => bundle.replace('-----END CERTIFICATE-----\n', ''),
    'line 1: the certificate is cut off',
  ],
  [
    'other data in a certificate block',
    () => '-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----',
    'line 1: the certificate cannot be parsed',
  ],
])('a bundle that is %s is refused', (_what, broken, message) => {
  expect(() => parseCertificatePem(broken())).toThrow(message);
});

test.each<[string, (pem: string) => string, string]>([
  ['has text before its BEGIN line', (pem) => `# ${pem}`, `line 1: put ${BEGIN} at the start of a line`],
  ['lost its BEGIN line', (pem) => pem.slice(pem.indexOf('\n') + 1), 'the BEGIN line of this certificate'],
  ['has a misspelt label', (pem) => pem.replaceAll('CATE--', 'CATES--'), 'line 1: write the certificates'],
  ['lacks a dash', (pem) => `text\n${pem.slice(1)}`, 'line 2: write the certificates between'],
  ['is a PKCS #7 block', (pem) => pem.replaceAll('CERTIFICATE', 'PKCS7'), 'line 1: write the certificates'],
  ['ends with another label', (pem) => pem.replace('END C', 'END X509 C'), 'line 1: the certificate is cut'],
])('a certificate that %s is reported by its line, not lost', (_what, disfigure, message) => {
  expect(() => splitCertificates(disfigure(bundle))).toThrow(message);
  expect(() => splitCertificates(bundle + disfigure(bundle))).toThrow();
});

test.each([
  ['CRLF line ends', (pem: string) => pem.replaceAll('\n', '\r\n'), true],
  ['no final line end', (pem: string) => pem.trimEnd(), true],
  ['its lines in another length', (pem: string) => pem.replace(/([A-Za-z0-9+/=]{64})\n/g, '$1'), false],
  ['text around it', (pem: string) => `subject=CN = ca\n${pem}`, false],
])('a bundle with %s counts as readable for every client: %#', (_what, disfigure, isReadable) => {
  expect(holdsSameCertificates(disfigure(bundle), bundle)).toBe(isReadable);
  expect(readableCertificates(disfigure(bundle))?.length).toBe(isReadable ? 2 : undefined);
});

test.each([
  ['nothing', [], true],
  ['serverAuth is trusted', ['-addtrust', 'serverAuth'], true],
  ['only emailProtection is trusted', ['-addtrust', 'emailProtection'], false],
  ['emailProtection is rejected', ['-addreject', 'emailProtection'], true],
  ['serverAuth is rejected', ['-addreject', 'serverAuth'], false],
  ['all purposes are rejected', ['-addreject', 'anyExtendedKeyUsage'], false],
])('trust settings of OpenSSL: %s', (_what, options, isTrusted) => {
  const root = toCertificatePem(splitCertificates(bundle).slice(0, 1));
  const args = ['x509', '-trustout', '-setalias', 'root', ...options];
  const trusted = execFileSync('openssl', args, { input: root, encoding: 'utf8' });
  expect(trusted).toContain('BEGIN TRUSTED CERTIFICATE');
  const read = () => parseCertificatePem(trusted);
  if (isTrusted) expect(read()).toBe(root);
  else expect(read).toThrow('line 1: the trust settings of the certificate exclude servers');
});

test.each([
  ['folded', (pem: string) => pem.replaceAll('\n', '')],
  ['indented', (pem: string) => pem.replaceAll(/^/gm, '  ')],
  ['after text', (pem: string) => `# ${pem}`],
])('a private key that is %s is read', async (_what, disfigure) => {
  const { privateKey } = await generateKeyPair('RSA-2048');
  expect(parsePrivateKeyPem(disfigure(privateKey))).toBe(privateKey);
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
