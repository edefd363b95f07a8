import { createPublicKey, X509Certificate } from 'node:crypto';
import { beforeAll, expect, test } from 'vitest';
import { signWith } from '../authority/generation.ts';
import { certificateFields } from './certificate-fields.ts';
import { commonName, keyIdOf, signCertificate, subjectOf, type CertificateTemplate } from './certificate.ts';
import { generateKeyPair, type KeyPair } from './keys.ts';

let keyPair: KeyPair;
let template: CertificateTemplate;

beforeAll(async () => {
  keyPair = await generateKeyPair('ECDSA-P256');
  template = {
    subject: { name: commonName('test-ca'), keyId: keyIdOf(keyPair.publicKey) },
    publicKey: keyPair.publicKey,
    serial: Uint8Array.of(0, 0xab, 0xcd),
    notBefore: new Date('2026-01-02T03:04:05Z'),
    notAfter: new Date('2028-01-02T03:04:05Z'),
    purpose: { kind: 'authority' },
  };
});

const signer = () => ({ publicKey: keyPair.publicKey, sign: signWith(keyPair.privateKey) });
const signed = async (change: Partial<CertificateTemplate>) =>
  new X509Certificate(
    await signCertificate({ ...template, ...change }, { ...template.subject, ...signer() }),
  );

test('a certificate has the fields of its template', async () => {
  const certificate = await signed({});
  expect(certificate.subject).toBe('CN=test-ca');
  expect(certificate.serialNumber).toBe('ABCD');
  expect(certificate.validFromDate).toEqual(template.notBefore);
  expect(certificate.validToDate).toEqual(template.notAfter);
  expect(certificate.ca).toBe(true);
  expect(certificate.verify(createPublicKey(keyPair.publicKey.export({ type: 'spki', format: 'pem' })))).toBe(
    true,
  );
});

const tags = (certificate: X509Certificate) => ({
  utcTime: certificate.raw.includes(Buffer.from([0x17, 13])),
  generalizedTime: certificate.raw.includes(Buffer.from([0x18, 15])),
});

test.each([
  ['2049-12-31T23:59:59Z', { utcTime: true, generalizedTime: false }],
  ['2050-01-01T00:00:00Z', { utcTime: true, generalizedTime: true }],
])('a certificate that ends at %s encodes the date as in RFC 5280', async (end, expected) => {
  const certificate = await signed({ notAfter: new Date(end) });
  expect(certificate.validToDate).toEqual(new Date(end));
  expect(tags(certificate)).toEqual(expected);
});

test.each([
  [
    'a validity that ends before it begins',
    { notAfter: new Date('2025-01-01T00:00:00Z') },
    'before it begins',
  ],
  ['a date after the year 9999', { notAfter: new Date('+010000-01-01T00:00:00Z') }, 'cannot hold the date'],
  ['the serial zero', { serial: Uint8Array.of(0) }, 'serial number'],
  ['a negative serial', { serial: Uint8Array.of(0x80) }, 'serial number'],
  ['a serial that is not minimal', { serial: Uint8Array.of(0, 1) }, 'serial number'],
  ['a serial of 21 octets', { serial: new Uint8Array(21).fill(1) }, 'serial number'],
])('%s is refused', async (_what, change, message) => {
  await expect(signed(change)).rejects.toThrow(message);
});

test('a common name that is too long is refused', () => {
  expect(() => commonName('x'.repeat(65))).toThrow('at most 64 characters');
});

test('subject and key id are copied from the issuer, not computed again', async () => {
  const odd = { name: commonName('Ünïcode ca'), keyId: Uint8Array.from({ length: 20 }, (_, i) => 255 - i) };
  const issuer = { ...odd, ...signer() };
  const root = new X509Certificate(await signCertificate({ ...template, subject: odd }, issuer));
  expect(subjectOf(root).name).toEqual(odd.name);
  expect(Buffer.from(subjectOf(root).keyId)).toEqual(Buffer.from(odd.keyId));

  const other = await generateKeyPair('ECDSA-P256');
  const child = new X509Certificate(
    await signCertificate(
      {
        ...template,
        subject: { name: commonName('child'), keyId: keyIdOf(other.publicKey) },
        publicKey: other.publicKey,
      },
      { ...subjectOf(root), ...signer() },
    ),
  );
  expect(child.checkIssued(root)).toBe(true);
});

test('a serving cert contains its names and its purpose', async () => {
  const dnsNames = ['db', '*.db.prod.svc'];
  const fields = certificateFields(await signed({ purpose: { kind: 'serving', dnsNames } }));
  expect(fields.dnsNames).toEqual(dnsNames);
  expect(fields.extendedKeyUsage).toEqual(['1.3.6.1.5.5.7.3.1']);
  expect(fields.keyUsage).toBe(0x80);
});
