import { createPrivateKey, X509Certificate, type KeyObject } from 'node:crypto';

/** One or more certificates as PEM, in order, with LF line ends and no other text. */
export type CertificatePem = string & { readonly holds: 'certificate' };

/** One unencrypted private key as PEM (PKCS#8). */
export type PrivateKeyPem = string & { readonly holds: 'private key' };

const BEGIN = '-----BEGIN CERTIFICATE-----';
const END = '-----END CERTIFICATE-----';
const BASE64 = /^[A-Za-z0-9+/=\s]+$/;

/**
 * Accepts CRLF and text around the certificates (RFC 7468 §2). Runs in linear time, even for hostile input.
 * @throws Error if a block is cut off, does not hold a certificate, or holds one without a readable validity
 */
export function splitCertificates(pem: string): X509Certificate[] {
  const certificates: X509Certificate[] = [];
  for (let begin = pem.indexOf(BEGIN); begin !== -1;) {
    const end = pem.indexOf(END, begin);
    const ordinal = certificates.length + 1;
    if (end === -1) throw new Error(`certificate ${ordinal} is cut off: its END line is missing`);
    certificates.push(parseBody(pem.slice(begin + BEGIN.length, end), ordinal));
    begin = pem.indexOf(BEGIN, end);
  }
  return certificates;
}

function parseBody(body: string, ordinal: number): X509Certificate {
  if (!BASE64.test(body)) throw new Error(`certificate ${ordinal} is not base64`);
  const certificate = parseDer(Buffer.from(body, 'base64'), ordinal);
  if (!hasReadableValidity(certificate))
    throw new Error(`the validity of certificate ${ordinal} cannot be read`);
  return certificate;
}

function parseDer(der: Uint8Array, ordinal: number): X509Certificate {
  try {
    return new X509Certificate(der);
  } catch (cause) {
    throw new Error(`certificate ${ordinal} cannot be parsed`, { cause });
  }
}

/** The texts say so. Node makes the dates from uninitialised memory then: mostly an Invalid Date, equal to nothing. */
export const hasReadableValidity = ({ validFrom, validTo }: X509Certificate): boolean =>
  ![validFrom, validTo].some((time) => Number.isNaN(Date.parse(time)));

export function toCertificatePem(certificates: readonly { readonly raw: Uint8Array }[]): CertificatePem {
  return brandCertificates(certificates.map(({ raw }) => block(raw)).join(''));
}

function block(der: Uint8Array): string {
  const lines = Buffer.from(der)
    .toString('base64')
    .match(/.{1,64}/g);
  return `${BEGIN}\n${(lines ?? []).join('\n')}\n${END}\n`;
}

export const joinCertificatePems = (parts: readonly CertificatePem[]): CertificatePem =>
  brandCertificates(parts.join(''));

/** From other writers. @throws Error if a certificate is missing or broken */
export const parseCertificatePem = (text: string): CertificatePem =>
  toCertificatePem(splitCertificates(text));

function brandCertificates(pem: string): CertificatePem {
  if (!pem.startsWith(BEGIN)) throw new Error('there is no PEM certificate');
  return pem as CertificatePem;
}

export function firstCertificate(pem: CertificatePem): X509Certificate {
  const [first] = splitCertificates(pem);
  if (first === undefined) throw new Error('there is no PEM certificate');
  return first;
}

/** @throws Error if the text is not a private key, or is encrypted. The message never holds a part of the key */
export const parsePrivateKeyPem = (text: string): PrivateKeyPem => toPrivateKeyPem(privateKeyOf(text));

export function toPrivateKeyPem(key: KeyObject): PrivateKeyPem {
  const pem = key.export({ type: 'pkcs8', format: 'pem' });
  if (!isPkcs8(pem)) throw new Error('the private key cannot be written as PKCS#8');
  return pem;
}

const isPkcs8 = (pem: string | Buffer): pem is PrivateKeyPem =>
  typeof pem === 'string' && pem.startsWith('-----BEGIN PRIVATE KEY-----');

/** In any form that Node reads: PKCS#1, SEC1, PKCS#8. @throws Error as {@link parsePrivateKeyPem} */
export function privateKeyOf(text: string): KeyObject {
  try {
    return createPrivateKey(text);
  } catch (cause) {
    throw new Error('the private key cannot be parsed', { cause });
  }
}

/** Whether two PEM texts hold the same certificates, in any order and layout. Broken PEM equals nothing. */
export function holdsSameCertificates(a: string, b: string): boolean {
  const fingerprints = fingerprintsOf(a);
  return fingerprints !== undefined && fingerprints === fingerprintsOf(b);
}

/** The sorted SHA-256 fingerprints of the certificates in a PEM text, as one line; undefined if the text is broken. */
export const fingerprintsOf = (pem: string): string | undefined =>
  readableCertificates(pem)
    ?.map(({ fingerprint256 }) => fingerprint256)
    .sort()
    .join();

export function readableCertificates(pem: string): X509Certificate[] | undefined {
  try {
    return splitCertificates(pem);
  } catch {
    return undefined;
  }
}
