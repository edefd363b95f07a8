import { createPrivateKey, X509Certificate, type KeyObject } from 'node:crypto';
import { childrenOf, decode, isContext, objectIdOf, OID, type DerNode } from './certificate-fields.ts';

/** One or more certificates as PEM, in order, with LF line ends and no other text. */
export type CertificatePem = string & { readonly holds: 'certificate' };

/** One unencrypted private key as PEM (PKCS#8). */
export type PrivateKeyPem = string & { readonly holds: 'private key' };

const BEGIN = '-----BEGIN CERTIFICATE-----';
const END = '-----END CERTIFICATE-----';
const BASE64 = /^[A-Za-z0-9+/=\s]+$/;

/** What begins or ends a block, and what only looks like it. */
const MARKER = /---[ \t]?(?:BEGIN|END)\b[^\n-]{0,64}-{0,5}/gi;
/** OpenSSL reads these three labels. */
const EXACT = /^---(BEGIN|END) ((?:X509 |TRUSTED )?CERTIFICATE)-----$/;
/** Requests and attribute certificates contain no CA. */
const RESEMBLES = /^(?!.*(?:REQUEST|ATTRIBUTE)).*(?:CERTIFICATE|PKCS ?#?7|CMS)/i;

/**
 * Accepts what OpenSSL accepts, also CRLF, indented and folded blocks, and text around them (RFC 7468 §2).
 * @throws Error with the line of the first block that cannot be read: no certificate is lost silently
 */
export function splitCertificates(pem: string): X509Certificate[] {
  return Array.from(scanCertificates(pem), (found) => {
    if (found instanceof Error) throw found;
    return found;
  });
}

interface Block {
  readonly label: string;
  readonly line: number;
  readonly from: number;
}

/** Yields an Error for each block that cannot be read. Takes linear time, also for hostile input. */
export function* scanCertificates(pem: string): Generator<X509Certificate | Error> {
  let open: Block | undefined;
  for (const { kind, label, line, isAlone, from, to } of markersIn(pem)) {
    if (open !== undefined)
      yield kind === 'END' && label === open.label
        ? parseBlock(pem.slice(open.from, from), open)
        : cutOff(open);
    else if (kind === 'END') yield problemAt(line, 'the BEGIN line of this certificate is missing');
    open = kind === 'BEGIN' && isAlone ? { label, line, from: to } : undefined;
    if (kind === 'BEGIN' && !isAlone) yield problemAt(line, `put ${BEGIN} at the start of a line of its own`);
    if (kind === 'unknown') yield problemAt(line, `write the certificates between ${BEGIN} and ${END}`);
  }
  if (open !== undefined) yield cutOff(open);
}

const problemAt = (line: number, problem: string, options?: ErrorOptions): Error =>
  new Error(`line ${line}: ${problem}`, options);

const cutOff = ({ line }: Block): Error =>
  problemAt(line, 'the certificate is cut off: its END line is missing');

function* markersIn(pem: string) {
  let line = 1;
  let lineStart = 0;
  let lineEnd = pem.indexOf('\n');
  let over = 0;
  for (const { 0: text, index } of pem.matchAll(MARKER)) {
    for (; lineEnd !== -1 && lineEnd < index; lineEnd = pem.indexOf('\n', lineStart)) {
      line += 1;
      lineStart = lineEnd + 1;
    }
    const from = Math.max(lineStart, index - 2);
    const to = index + text.length;
    const isAlone = pem.slice(Math.max(lineStart, over), from).trim() === '';
    const [, exact, label = ''] = (pem.startsWith('-----', from) ? EXACT.exec(text) : null) ?? [];
    const kind = exact ?? (isAlone && pem[index - 1] === '-' && RESEMBLES.test(text) ? 'unknown' : 'other');
    yield { kind, label, line, isAlone, from, to };
    over = to;
  }
}

function parseBlock(body: string, { label, line }: Block): X509Certificate | Error {
  if (!BASE64.test(body)) return problemAt(line, 'the certificate is not base64');
  const der = Buffer.from(body, 'base64');
  try {
    const certificate = new X509Certificate(der);
    if (!hasReadableValidity(certificate))
      return problemAt(line, 'the validity of the certificate cannot be read');
    return label === 'TRUSTED CERTIFICATE' && !maySignServers(der.subarray(certificate.raw.length))
      ? problemAt(line, 'the trust settings of the certificate exclude servers: remove it')
      : certificate;
  } catch (cause) {
    return problemAt(line, 'the certificate cannot be parsed', { cause });
  }
}

/** By the settings that `openssl x509 -addtrust` and `-addreject` append to a certificate. */
function maySignServers(settings: Uint8Array): boolean {
  const parts = settings.length === 0 ? [] : childrenOf(decode(settings));
  const rejected = parts.find((part) => isContext(part, 0));
  const trusted = parts[0] === rejected ? undefined : parts[0];
  const namesServers = (purposes: DerNode | undefined) =>
    childrenOf(purposes)
      .map(objectIdOf)
      .some((id) => id === OID.serverAuth || id === OID.anyExtendedKeyUsage);
  return !namesServers(rejected) && (childrenOf(trusted).length === 0 || namesServers(trusted));
}

/** The texts say so. Node makes the dates from uninitialised memory then: mostly an Invalid Date, equal to nothing. */
export const hasReadableValidity = ({ validFrom, validTo }: X509Certificate): boolean =>
  ![validFrom, validTo].some((time) => Number.isNaN(Date.parse(time)));

export function toCertificatePem(certificates: readonly { readonly raw: Uint8Array }[]): CertificatePem {
  return brandCertificates(certificates.map(({ raw }) => block(raw)).join(''));
}

function block(der: Uint8Array, label = 'CERTIFICATE'): string {
  const lines = Buffer.from(der)
    .toString('base64')
    .match(/.{1,64}/g);
  return `-----BEGIN ${label}-----\n${(lines ?? []).join('\n')}\n-----END ${label}-----\n`;
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

const PRIVATE_KEY = /-----BEGIN ((?:[A-Z]{1,9} )?PRIVATE KEY)-----([\sA-Za-z0-9+/=]+)-----END \1-----/;

/** PKCS#1, SEC1 or PKCS#8, also folded and indented. @throws Error as {@link parsePrivateKeyPem} */
export function privateKeyOf(text: string): KeyObject {
  const [, label, body = ''] = PRIVATE_KEY.exec(text) ?? [];
  try {
    return createPrivateKey(label === undefined ? text : block(Buffer.from(body, 'base64'), label));
  } catch (cause) {
    throw new Error('the private key cannot be parsed', { cause });
  }
}

/** Whether two PEM texts hold the same certificates, in any order. A text that some client cannot read equals nothing. */
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

/** Undefined if some client cannot read the text. All clients read what Gatehouse writes, also with CRLF. */
export function readableCertificates(pem: string): X509Certificate[] | undefined {
  try {
    const certificates = splitCertificates(pem);
    return isWrittenAs(pem, certificates.map(({ raw }) => block(raw)).join('')) ? certificates : undefined;
  } catch {
    return undefined;
  }
}

/** Whether every client reads the text alike: only line ends may differ, and the last one may be missing. */
export function isWrittenAs(text: string, canonical: string): boolean {
  const lines = text.replaceAll('\r\n', '\n');
  return lines === canonical || `${lines}\n` === canonical;
}
