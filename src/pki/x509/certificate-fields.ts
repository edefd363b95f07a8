import type { X509Certificate } from 'node:crypto';
import {
  childrenOf,
  contentOf,
  decode,
  encode,
  isBoolean,
  isContext,
  objectIdOf,
  type DerNode,
} from './der.ts';

export const OID = {
  commonName: '2.5.4.3',
  subjectKeyIdentifier: '2.5.29.14',
  keyUsage: '2.5.29.15',
  subjectAltName: '2.5.29.17',
  basicConstraints: '2.5.29.19',
  nameConstraints: '2.5.29.30',
  authorityKeyIdentifier: '2.5.29.35',
  extendedKeyUsage: '2.5.29.37',
  certificatePolicies: '2.5.29.32',
  serverAuth: '1.3.6.1.5.5.7.3.1',
  clientAuth: '1.3.6.1.5.5.7.3.2',
} as const;

export const LEAF_PURPOSES = ['serving', 'client'] as const;
export type LeafPurpose = (typeof LEAF_PURPOSES)[number];
/** A leaf has exactly one extended key usage: no server accepts a serving cert from a client. */
export const USAGE_OF = { serving: OID.serverAuth, client: OID.clientAuth } as const;

/** Bits in the first octet of KeyUsage (RFC 5280 §4.2.1.3). */
export const KEY_USAGE = {
  digitalSignature: 0x80,
  keyEncipherment: 0x20,
  keyCertSign: 0x04,
  crlSign: 0x02,
} as const;

export interface CertificateFields {
  /** The DER of the subject. The issuer name in certificates that this CA signs is a copy of these bytes. */
  readonly subject: Uint8Array;
  readonly subjectKeyId: Uint8Array | undefined;
  readonly dnsNames: readonly string[];
  readonly addresses: readonly Uint8Array[];
  /** Bits of {@link KEY_USAGE}; undefined if the certificate does not restrict its key. */
  readonly keyUsage: number | undefined;
  readonly pathLength: number | undefined;
  /** The DER of the extension; undefined if the CA may sign any name. */
  readonly nameConstraints: Uint8Array | undefined;
  /** Of DNS names; undefined if the CA may sign any. */
  readonly permittedDomains: readonly string[] | undefined;
  /** Not even if they are permitted. The empty domain is every name. */
  readonly excludedDomains: readonly string[];
  /** Address, then mask; undefined if the CA may sign any. */
  readonly permittedAddresses: readonly Uint8Array[] | undefined;
  readonly excludedAddresses: readonly Uint8Array[];
  /** Other than DNS names, email addresses, URIs and IP addresses. */
  readonly constrainsOtherNames: boolean;
  readonly extendedKeyUsage: readonly string[] | undefined;
  readonly signatureAlgorithm: string;
  /** Whether each is critical: a verifier that does not know it must refuse. */
  readonly extensions: ReadonlyMap<string, boolean>;
}

/** The names in a leaf must be within the limits of each CA above it. */
export type NameLimits = Pick<
  CertificateFields,
  'permittedDomains' | 'excludedDomains' | 'permittedAddresses' | 'excludedAddresses'
>;

/** @throws Error if the certificate does not have the structure of RFC 5280 §4.1. */
export function certificateFields(certificate: X509Certificate): CertificateFields {
  const [tbs, signatureAlgorithm] = childrenOf(decode(certificate.raw));
  const fields = childrenOf(tbs);
  // version [0], serialNumber, signature, issuer, validity, subject; version is absent in a v1 certificate
  const subject = fields[isContext(fields[0], 0) ? 5 : 4];
  if (subject === undefined) throw new Error('the certificate lacks a subject');

  const list = childrenOf(childrenOf(fields.find((field) => isContext(field, 3)))[0]);
  const extensions = readExtensions(list);
  const subjectKeyId = extensions.get(OID.subjectKeyIdentifier);
  const keyUsage = extensions.get(OID.keyUsage);
  const extendedKeyUsage = extensions.get(OID.extendedKeyUsage);
  const constraints = extensions.get(OID.nameConstraints);
  return {
    subject: encode(subject),
    subjectKeyId: subjectKeyId && contentOf(subjectKeyId),
    dnsNames: dnsNamesIn(childrenOf(extensions.get(OID.subjectAltName))),
    addresses: addressesIn(childrenOf(extensions.get(OID.subjectAltName))),
    keyUsage: keyUsage && (contentOf(keyUsage)[1] ?? 0), // octet 0 counts unused bits
    pathLength: pathLengthOf(extensions.get(OID.basicConstraints)),
    nameConstraints: constraints && encode(constraints),
    ...constraintsIn(constraints),
    extendedKeyUsage: extendedKeyUsage && childrenOf(extendedKeyUsage).map(objectIdOf),
    signatureAlgorithm: objectIdOf(childrenOf(signatureAlgorithm)[0]),
    extensions: new Map(list.map((extension) => [idOf(extension), isCritical(extension)])),
  };
}

const dnsNamesIn = (names: readonly DerNode[]): readonly string[] =>
  names.filter((name) => isContext(name, 2)).map((name) => Buffer.from(contentOf(name)).toString('latin1'));

const addressesIn = (names: readonly DerNode[]): readonly Uint8Array[] =>
  names.filter((name) => isContext(name, 7)).map(contentOf);

/** The tags of the names that Go, and so the API server, can constrain: email, DNS, URI, IP address. */
const KNOWN_NAMES: ReadonlySet<number> = new Set([1, 2, 6, 7]);

/** RFC 5280 §4.2.1.10. A CA without permitted DNS names may sign any. */
function constraintsIn(
  constraints: DerNode | undefined,
): NameLimits & Pick<CertificateFields, 'constrainsOtherNames'> {
  const [permitted = [], excluded = []] = ([0, 1] as const).map((tag) => {
    const subtrees = childrenOf(constraints).find((child) => isContext(child, tag));
    return childrenOf(subtrees).flatMap((subtree) => childrenOf(subtree).slice(0, 1));
  });
  const domains = domainsIn(permitted);
  const ranges = addressesIn(permitted);
  return {
    permittedDomains: domains.length === 0 || domains.includes('') ? undefined : domains,
    excludedDomains: domainsIn(excluded),
    permittedAddresses: ranges.length === 0 ? undefined : ranges,
    excludedAddresses: addressesIn(excluded),
    constrainsOtherNames: [...permitted, ...excluded].some((name) => !KNOWN_NAMES.has(name.type)),
  };
}

/** In lower case, without the leading dot that some CAs write. It would exclude only the domain itself. */
const domainsIn = (names: readonly DerNode[]): readonly string[] =>
  dnsNamesIn(names).map((domain) => domain.toLowerCase().replace(/^\./, ''));

const idOf = (extension: DerNode): string => objectIdOf(childrenOf(extension)[0]);

function isCritical(extension: DerNode): boolean {
  const flag = childrenOf(extension)[1];
  return isBoolean(flag) && contentOf(flag)[0] !== 0;
}

function readExtensions(list: readonly DerNode[]): ReadonlyMap<string, DerNode> {
  return new Map(
    list.map((extension) => {
      const [, second, third] = childrenOf(extension);
      const value = isBoolean(second) ? third : second; // `critical` is absent if it is false
      return [idOf(extension), decode(contentOf(value))];
    }),
  );
}

/** RFC 5280 §4.2.1.9: SEQUENCE { cA BOOLEAN DEFAULT FALSE, pathLenConstraint INTEGER OPTIONAL }. */
function pathLengthOf(constraints: DerNode | undefined): number | undefined {
  const length = childrenOf(constraints).find((child) => !isBoolean(child));
  return length === undefined ? undefined : contentOf(length).reduce((sum, octet) => sum * 256 + octet, 0);
}
