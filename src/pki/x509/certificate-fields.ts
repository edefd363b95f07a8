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

/** Object identifiers of RFC 5280. */
export const OID = {
  commonName: '2.5.4.3',
  subjectKeyIdentifier: '2.5.29.14',
  keyUsage: '2.5.29.15',
  subjectAltName: '2.5.29.17',
  basicConstraints: '2.5.29.19',
  nameConstraints: '2.5.29.30',
  authorityKeyIdentifier: '2.5.29.35',
  extendedKeyUsage: '2.5.29.37',
  serverAuth: '1.3.6.1.5.5.7.3.1',
  anyExtendedKeyUsage: '2.5.29.37.0',
} as const;

/** Bits in the first octet of KeyUsage (RFC 5280 §4.2.1.3). */
export const KEY_USAGE = {
  digitalSignature: 0x80,
  keyEncipherment: 0x20,
  keyCertSign: 0x04,
  crlSign: 0x02,
} as const;

/** Fields that Node's `X509Certificate` does not expose. */
export interface CertificateFields {
  /** The DER of the subject. The issuer name in certificates that this CA signs is a copy of these bytes. */
  readonly subject: Uint8Array;
  readonly subjectKeyId: Uint8Array | undefined;
  /** DNS names only. */
  readonly dnsNames: readonly string[];
  /** Bits of {@link KEY_USAGE}; undefined if the certificate does not restrict its key. */
  readonly keyUsage: number | undefined;
  /** How many CAs are allowed between this one and a leaf; undefined: any number. */
  readonly pathLength: number | undefined;
  /** The DER of the extension; undefined if the CA may sign any name. */
  readonly nameConstraints: Uint8Array | undefined;
  /** The domains in which the CA may sign DNS names; undefined if it may sign any. */
  readonly permittedDomains: readonly string[] | undefined;
  /** Object identifiers; undefined if the certificate does not restrict its purpose. */
  readonly extendedKeyUsage: readonly string[] | undefined;
}

/** @throws Error if the certificate does not have the structure of RFC 5280 §4.1. */
export function certificateFields(certificate: X509Certificate): CertificateFields {
  const [tbs] = childrenOf(decode(certificate.raw));
  const fields = childrenOf(tbs);
  // version [0], serialNumber, signature, issuer, validity, subject; version is absent in a v1 certificate
  const subject = fields[isContext(fields[0], 0) ? 5 : 4];
  if (subject === undefined) throw new Error('the certificate has no subject');

  const extensions = readExtensions(fields.find((field) => isContext(field, 3)));
  const subjectKeyId = extensions.get(OID.subjectKeyIdentifier);
  const keyUsage = extensions.get(OID.keyUsage);
  const extendedKeyUsage = extensions.get(OID.extendedKeyUsage);
  const constraints = extensions.get(OID.nameConstraints);
  return {
    subject: encode(subject),
    subjectKeyId: subjectKeyId && contentOf(subjectKeyId),
    dnsNames: dnsNamesIn(childrenOf(extensions.get(OID.subjectAltName))),
    keyUsage: keyUsage && (contentOf(keyUsage)[1] ?? 0), // octet 0 counts unused bits
    pathLength: pathLengthOf(extensions.get(OID.basicConstraints)),
    nameConstraints: constraints && encode(constraints),
    permittedDomains: permittedDomainsOf(constraints),
    extendedKeyUsage: extendedKeyUsage && childrenOf(extendedKeyUsage).map(objectIdOf),
  };
}

const dnsNamesIn = (names: readonly DerNode[]): readonly string[] =>
  names.filter((name) => isContext(name, 2)).map((name) => Buffer.from(contentOf(name)).toString('latin1'));

/** RFC 5280 §4.2.1.10. A CA without permitted DNS names may sign any. */
function permittedDomainsOf(constraints: DerNode | undefined): readonly string[] | undefined {
  const permitted = childrenOf(constraints).find((subtrees) => isContext(subtrees, 0));
  const domains = dnsNamesIn(childrenOf(permitted).flatMap((subtree) => childrenOf(subtree).slice(0, 1)));
  return domains.length === 0 ? undefined : domains;
}

function readExtensions(field: DerNode | undefined): ReadonlyMap<string, DerNode> {
  const [list] = childrenOf(field);
  return new Map(
    childrenOf(list).map((extension) => {
      const [id, second, third] = childrenOf(extension);
      const value = isBoolean(second) ? third : second; // `critical` is absent if it is false
      return [objectIdOf(id), decode(contentOf(value))];
    }),
  );
}

/** RFC 5280 §4.2.1.9: SEQUENCE { cA BOOLEAN DEFAULT FALSE, pathLenConstraint INTEGER OPTIONAL }. */
function pathLengthOf(constraints: DerNode | undefined): number | undefined {
  const length = childrenOf(constraints).find((child) => !isBoolean(child));
  return length === undefined ? undefined : contentOf(length).reduce((sum, octet) => sum * 256 + octet, 0);
}
