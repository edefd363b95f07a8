import { createHash, type KeyObject, type X509Certificate } from 'node:crypto';

import {
  bitString,
  bitStringContent,
  boolean,
  certificateFields,
  childrenOf,
  decode,
  type DerNode,
  derNull,
  encode,
  explicit,
  implicit,
  integer,
  KEY_USAGE,
  type LeafPurpose,
  objectId,
  octetString,
  OID,
  sequence,
  setOf,
  time,
  USAGE_OF,
  utf8String,
} from './certificate-fields.ts';
import { type CertificatePem, toCertificatePem } from './pem.ts';

/** The DER of a Name, and the id by which other certificates refer to the key. */
export interface Subject {
  readonly name: Uint8Array;
  readonly keyId: Uint8Array;
}

export interface Issuer extends Subject {
  readonly publicKey: KeyObject;
  readonly sign: Sign;
}

type CertificatePurpose =
  | { readonly kind: 'authority'; readonly nameConstraints?: Uint8Array | undefined }
  | ({ readonly kind: LeafPurpose } & LeafNames);

interface LeafNames {
  readonly dnsNames: readonly string[];
  readonly addresses?: readonly Uint8Array[];
}

export interface CertificateTemplate {
  readonly subject: Subject;
  readonly publicKey: KeyObject;
  readonly serial: Uint8Array;
  readonly notBefore: Date;
  readonly notAfter: Date;
  readonly purpose: CertificatePurpose;
}

/** An empty Name. A serving cert has names only in its SAN, where the limit of 64 characters does not apply. */
const EMPTY_NAME = encode(sequence());

/** @throws Error if `text` is longer than 64 characters (RFC 5280 appendix A, ub-common-name). */
export function commonName(text: string): Uint8Array {
  if (text.length > 64) throw new Error(`"${text}" is too long for a common name: at most 64 characters`);
  return encode(sequence(setOf(sequence(objectId(OID.commonName), utf8String(text)))));
}

/** The id of a key: the leftmost 160 bits of the SHA-256 hash of the public key bits (RFC 7093 §2 method 1). */
export function keyIdOf(publicKey: KeyObject): Uint8Array {
  const [, bits] = childrenOf(decode(publicKey.export({ type: 'spki', format: 'der' })));
  if (bits === undefined) throw new Error('the public key lacks key bits');
  return createHash('sha256').update(bitStringContent(bits)).digest().subarray(0, 20);
}

/** Copied: verifiers compare bytes, so a recomputed subject (another hash or string type) might differ. */
export function subjectOf(certificate: X509Certificate): Subject {
  const { subject, subjectKeyId } = certificateFields(certificate);
  if (subjectKeyId === undefined) throw new Error('the certificate lacks a subject key identifier');
  return { name: subject, keyId: subjectKeyId };
}

/** As in RFC 5280. @throws Error if the validity is empty, the serial is not allowed, or the issuer cannot sign */
export async function signCertificate(
  template: CertificateTemplate,
  issuer: Issuer,
): Promise<CertificatePem> {
  const { subject, publicKey, serial, notBefore, notAfter } = template;
  if (notAfter <= notBefore)
    throw new Error(`the certificate would end (${notAfter.toISOString()}) before it begins`);
  if (!isSerial(serial))
    throw new Error('the serial number must be positive, minimal and at most 20 octets long');

  const algorithm = signatureAlgorithm(issuer.publicKey);
  const identifier = () => algorithmIdentifier(algorithm);
  const tbs = sequence(
    explicit(0, integer(Uint8Array.of(2))), // v3
    integer(serial),
    identifier(),
    decode(issuer.name),
    sequence(time(notBefore), time(notAfter)),
    decode(subject.name),
    decode(publicKey.export({ type: 'spki', format: 'der' })),
    explicit(3, sequence(...extensions(template, issuer))),
  );
  const signature = await issuer.sign(algorithm, encode(tbs));
  return toCertificatePem([{ raw: encode(sequence(tbs, identifier(), bitString(signature))) }]);
}

type Term = Pick<CertificateTemplate, 'serial' | 'notBefore' | 'notAfter'>;

/** RFC 5280 §4.2.1.10: a CA may sign only names in these domains, and no IP address. */
export function nameConstraints(domains: readonly string[]): Uint8Array {
  const everyAddress = [8, 32].map((octets) => sequence(implicit(7, new Uint8Array(octets)))); // IPv4 and IPv6
  const permitted = domains.map((domain) => sequence(implicit(2, Buffer.from(domain, 'latin1'))));
  return encode(sequence(explicit(0, ...permitted), explicit(1, ...everyAddress)));
}

export async function signRoot(
  name: string,
  { publicKey, sign }: Pick<Issuer, 'publicKey' | 'sign'>,
  term: Term,
  constraints?: Uint8Array,
): Promise<{ readonly issuer: Issuer; readonly certificate: CertificatePem }> {
  const issuer = { name: commonName(name), keyId: keyIdOf(publicKey), publicKey, sign };
  const purpose = { kind: 'authority', nameConstraints: constraints } as const;
  const template = { ...term, subject: issuer, publicKey, purpose };
  return { issuer, certificate: await signCertificate(template, issuer) };
}

/** Its subject is empty, so the API server accepts it as no user. */
export async function signServingCert(
  names: LeafNames,
  publicKey: KeyObject,
  term: Term,
  issuer: Issuer,
  kind: LeafPurpose = 'serving',
): Promise<CertificatePem> {
  const subject = { name: EMPTY_NAME, keyId: keyIdOf(publicKey) };
  return await signCertificate({ ...term, subject, publicKey, purpose: { kind, ...names } }, issuer);
}

function extensions({ subject, purpose, publicKey }: CertificateTemplate, issuer: Issuer): DerNode[] {
  const keyIds = [
    extension(OID.subjectKeyIdentifier, octetString(subject.keyId)),
    // Only the key id: the issuer's name and serial would match a single certificate and exclude bridges.
    extension(OID.authorityKeyIdentifier, sequence(implicit(0, issuer.keyId))),
  ];
  // No path length: Go counts every bridge against it, so a limit on a root would break the chains of its successors.
  const constraints = critical(
    OID.basicConstraints,
    purpose.kind === 'authority' ? sequence(boolean(true)) : sequence(),
  );
  if (purpose.kind === 'authority')
    return [
      constraints,
      critical(OID.keyUsage, usage(KEY_USAGE.keyCertSign | KEY_USAGE.crlSign)),
      ...(purpose.nameConstraints === undefined
        ? []
        : [critical(OID.nameConstraints, decode(purpose.nameConstraints))]),
      ...keyIds,
    ];

  const names = sequence(
    ...purpose.dnsNames.map((name) => implicit(2, Buffer.from(name, 'latin1'))),
    ...(purpose.addresses ?? []).map((address) => implicit(7, address)),
  );
  const hasSubject = childrenOf(decode(subject.name)).length > 0;
  const isRsa = publicKey.asymmetricKeyType === 'rsa';
  return [
    constraints,
    critical(OID.keyUsage, usage(KEY_USAGE.digitalSignature | (isRsa ? KEY_USAGE.keyEncipherment : 0))),
    extension(OID.extendedKeyUsage, sequence(objectId(USAGE_OF[purpose.kind]))),
    ...keyIds,
    hasSubject ? extension(OID.subjectAltName, names) : critical(OID.subjectAltName, names), // RFC 5280 §4.2.1.6
  ];
}

const extension = (id: string, value: DerNode) => sequence(objectId(id), octetString(encode(value)));
const critical = (id: string, value: DerNode) =>
  sequence(objectId(id), boolean(true), octetString(encode(value)));

/** A named bit list. In DER, the zero bits after the last one bit count as unused (X.690 §11.2.2). */
function usage(bits: number): DerNode {
  const unused = 31 - Math.clz32(bits & -bits);
  return bitString(Uint8Array.of(bits), unused);
}

function isSerial([first, second, ...rest]: Uint8Array): boolean {
  if (first === undefined || first >= 0x80 || rest.length > 18) return false;
  return first !== 0 || (second !== undefined && second >= 0x80);
}

/** The algorithm by which a CA signs. The signer hashes the bytes, because some signers do not accept a digest. */
export interface SignatureAlgorithm {
  readonly name: 'RSA-SHA256' | 'ECDSA-SHA256' | 'ECDSA-SHA384';
  readonly hash: 'sha256' | 'sha384';
}

/** Signs with one key. The signature is as in X.509: ECDSA in DER. */
export type Sign = (algorithm: SignatureAlgorithm, bytes: Uint8Array) => Promise<Uint8Array>;

/** The algorithm for a CA's key. @throws Error if such a key cannot sign certificates */
export function signatureAlgorithm(publicKey: KeyObject): SignatureAlgorithm {
  const curve = publicKey.asymmetricKeyDetails?.namedCurve;
  if (publicKey.asymmetricKeyType === 'rsa') return { name: 'RSA-SHA256', hash: 'sha256' };
  if (curve === 'prime256v1') return { name: 'ECDSA-SHA256', hash: 'sha256' };
  if (curve === 'secp384r1') return { name: 'ECDSA-SHA384', hash: 'sha384' };
  throw new Error('only RSA, P-256 and P-384 keys can sign certificates');
}

/** RFC 4055 §5 (RSA: parameters NULL), RFC 5758 §3.2 (ECDSA: no parameters). */
export function algorithmIdentifier({ name }: SignatureAlgorithm): DerNode {
  switch (name) {
    case 'RSA-SHA256':
      return sequence(objectId('1.2.840.113549.1.1.11'), derNull());
    case 'ECDSA-SHA256':
      return sequence(objectId('1.2.840.10045.4.3.2'));
    case 'ECDSA-SHA384':
      return sequence(objectId('1.2.840.10045.4.3.3'));
  }
}
