import type { KeyObject, X509Certificate } from 'node:crypto';
import { quote } from '../../json/printable.ts';
import { certificateFields, KEY_USAGE, OID, type CertificateFields } from './certificate-fields.ts';
import { readableCertificates } from './pem.ts';

/** `tolerant`: of deviations from RFC 5280. OpenSSL with `-x509_strict` and Python from 3.13 on are not. */
export type Clients = 'all' | 'tolerant';

/** Why some client rejects every server certificate below this path, which starts with the CA that signs. */
export function pathProblem(
  path: readonly X509Certificate[],
  now: Date,
  clients: Clients = 'all',
): string | undefined {
  for (const [below, ca] of path.entries()) {
    const position = { ca, fields: certificateFields(ca), below, issuer: path[below + 1], now };
    const problem = caProblem(position, clients);
    if (problem !== undefined) return path.length === 1 ? problem : `${nameOf(ca)}: ${problem}`;
  }
  return undefined;
}

/** The subject on one line. Node has none for an empty name. */
export const nameOf = ({ subject }: { readonly subject: string | undefined }): string =>
  subject === undefined ? 'a certificate without a name' : quote(subject.replaceAll('\n', ', '));

interface Position {
  readonly ca: X509Certificate;
  readonly fields: CertificateFields;
  readonly below: number;
  readonly issuer: X509Certificate | undefined;
  readonly now: Date;
}

type Check = (position: Position) => string | undefined;

const CHECKS: readonly Check[] = [
  ({ ca }) => (ca.ca ? undefined : 'it is not the certificate of a CA'),
  ({ fields: { keyUsage } }) =>
    keyUsage === undefined || (keyUsage & KEY_USAGE.keyCertSign) !== 0
      ? undefined
      : 'its key usage does not allow it to sign certificates: add keyCertSign',
  ({ fields: { subjectKeyId } }) =>
    subjectKeyId === undefined ? 'it lacks a subject key identifier, which chains need' : undefined,
  ({ ca, now }) => (ca.validToDate <= now ? `it ended at ${ca.validToDate.toISOString()}` : undefined),
  ({ ca }) => keyProblem(ca.publicKey),
  ({ fields: { extendedKeyUsage } }) =>
    // OpenSSL does not count anyExtendedKeyUsage.
    extendedKeyUsage?.includes(OID.serverAuth) === false
      ? 'its extended key usage lacks serverAuth, so clients reject all server certificates below it: add serverAuth or omit the extension'
      : undefined,
  ({ fields: { pathLength }, below }) =>
    pathLength !== undefined && pathLength < below
      ? `its path length is ${pathLength}, and the number of CAs below it is ${below}`
      : undefined,
  ({ fields }) => criticalProblem(fields),
  linkProblem,
];

const STRICT_CHECKS: readonly Check[] = [
  ({ fields: { keyUsage } }) =>
    keyUsage === undefined
      ? 'its key usage is missing, so strict clients reject it: add keyCertSign'
      : undefined,
  ({ fields: { extensions } }) =>
    extensions.get(OID.basicConstraints) === true
      ? undefined
      : 'its basic constraints are not critical, so strict clients reject it',
  ({ issuer, fields: { extensions } }) =>
    issuer === undefined || extensions.has(OID.authorityKeyIdentifier)
      ? undefined
      : 'its authority key identifier is missing, so strict clients reject it',
];

function caProblem(position: Position, clients: Clients): string | undefined {
  for (const check of clients === 'all' ? [...CHECKS, ...STRICT_CHECKS] : CHECKS) {
    const problem = check(position);
    if (problem !== undefined) return problem;
  }
  return undefined;
}

/** Go rejects longer RSA keys. Java before 15 knows no Ed25519, and some libraries do not enable P-521 and Ed25519. */
function keyProblem({ asymmetricKeyType, asymmetricKeyDetails }: KeyObject): string | undefined {
  const { modulusLength, namedCurve } = asymmetricKeyDetails ?? {};
  const isUsable =
    asymmetricKeyType === 'rsa'
      ? modulusLength !== undefined && modulusLength >= 2048 && modulusLength <= 8192
      : namedCurve === 'prime256v1' || namedCurve === 'secp384r1';
  if (isUsable) return undefined;
  const name = [asymmetricKeyType, namedCurve ?? modulusLength]
    .filter((part) => part !== undefined)
    .join(' ');
  return `its key (${name}) is of a type that some clients reject: use RSA (2048 to 8192 bits), ECDSA P-256 or ECDSA P-384`;
}

/** What Go processes, and so the API server. */
const KNOWN_EXTENSIONS: ReadonlySet<string> = new Set([
  OID.basicConstraints,
  OID.keyUsage,
  OID.extendedKeyUsage,
  OID.subjectAltName,
  OID.nameConstraints,
  OID.certificatePolicies,
]);

function criticalProblem({ extensions, constrainsOtherNames }: CertificateFields): string | undefined {
  const unknown = [...extensions].find(([id, isCritical]) => isCritical && !KNOWN_EXTENSIONS.has(id));
  if (unknown !== undefined)
    return `its critical extension ${unknown[0]} is unknown to the API server, which then rejects it: omit the extension`;
  return constrainsOtherNames && extensions.get(OID.nameConstraints) === true
    ? 'its name constraints are not only for DNS names, email addresses, URIs and IP addresses, so the API server rejects it'
    : undefined;
}

/** Clients do not verify signatures with SHA-1 or MD5. */
const SIGNATURES: ReadonlySet<string> = new Set([
  '1.2.840.113549.1.1.11', // RSA with SHA-256, SHA-384, SHA-512 (RFC 4055 §5)
  '1.2.840.113549.1.1.12',
  '1.2.840.113549.1.1.13',
  '1.2.840.10045.4.3.2', // ECDSA with the same (RFC 5758 §3.2)
  '1.2.840.10045.4.3.3',
  '1.2.840.10045.4.3.4',
]);

function linkProblem({ ca, issuer, fields }: Position): string | undefined {
  if (issuer === undefined) return undefined;
  if (!hasIssued(issuer, ca)) return `${nameOf(issuer)} did not issue it`;
  return SIGNATURES.has(fields.signatureAlgorithm)
    ? undefined
    : `the algorithm of its signature (${fields.signatureAlgorithm}) is one that some clients reject: use RSA or ECDSA with SHA-256, SHA-384 or SHA-512`;
}

/** Checks signatures and validity; the caller checks names. An unreadable chain or bundle trusts nothing. */
export function isTrustedBy(chain: string, bundle: string, now: Date): boolean {
  const [leaf, ...others] = readableCertificates(chain) ?? [];
  return leaf !== undefined && leadsTo(readableCertificates(bundle) ?? [], leaf, others, now);
}

/** Each of `others` is used at most once, so that a cycle of certificates ends. */
function leadsTo(
  roots: readonly X509Certificate[],
  certificate: X509Certificate,
  others: readonly X509Certificate[],
  now: Date,
): boolean {
  if (!isValidAt(certificate, now)) return false;
  if (roots.some((root) => isValidAt(root, now) && hasIssued(root, certificate))) return true;
  return others.some((issuer) => {
    const rest = others.filter((other) => other !== issuer);
    return hasIssued(issuer, certificate) && leadsTo(roots, issuer, rest, now);
  });
}

/** Whether `issuer` signed the certificate, and may have. */
export const hasIssued = (issuer: X509Certificate, certificate: X509Certificate): boolean =>
  certificate.checkIssued(issuer) && certificate.verify(issuer.publicKey);

const isValidAt = ({ validFromDate, validToDate }: X509Certificate, now: Date): boolean =>
  validFromDate <= now && now < validToDate;
