import type { X509Certificate } from 'node:crypto';
import forge from 'node-forge';

const { asn1 } = forge;
const { Class, Type } = asn1;

export type DerNode = forge.asn1.Asn1;

// node-forge stores bytes as strings, with one character per byte.
const toBinary = (bytes: Uint8Array) => Buffer.from(bytes).toString('latin1');
const ofBinary = (binary: string) => Buffer.from(binary, 'latin1');

const primitive = (type: forge.asn1.Type, value: string) => asn1.create(Class.UNIVERSAL, type, false, value);
const constructed = (type: forge.asn1.Type, value: DerNode[]) =>
  asn1.create(Class.UNIVERSAL, type, true, value);

export const encode = (node: DerNode): Uint8Array => ofBinary(asn1.toDer(node).getBytes());

/** @throws Error if `der` is not exactly one DER value. */
export const decode = (der: Uint8Array): DerNode => asn1.fromDer(toBinary(der));

export const sequence = (...items: DerNode[]) => constructed(Type.SEQUENCE, items);
export const setOf = (...items: DerNode[]) => constructed(Type.SET, items);
export const objectId = (dotted: string) => primitive(Type.OID, asn1.oidToDer(dotted).getBytes());
export const boolean = (value: boolean) => primitive(Type.BOOLEAN, value ? '\xff' : '\x00');
export const derNull = () => primitive(Type.NULL, '');
export const utf8String = (text: string) => primitive(Type.UTF8, toBinary(Buffer.from(text)));
/** For this type only, node-forge stores characters instead of bytes. */
export const bmpString = (text: string) => primitive(Type.BMPSTRING, text);
export const octetString = (content: Uint8Array) => primitive(Type.OCTETSTRING, toBinary(content));
export const bitString = (content: Uint8Array, unusedBits = 0) =>
  primitive(Type.BITSTRING, String.fromCharCode(unusedBits) + toBinary(content));

/** The bits of a BIT STRING. Reads the encoded form, because node-forge parses bits that look like DER. */
export function bitStringContent(node: DerNode): Uint8Array {
  const der = encode(node);
  const length = der[1] ?? 0;
  const header = length < 0x80 ? 2 : 2 + (length & 0x7f);
  return der.subarray(header + 1); // one octet counts the unused bits
}

/** `content`: two's complement, big-endian, minimal. */
export const integer = (content: Uint8Array) => primitive(Type.INTEGER, toBinary(content));

/** Context-specific tags by number. node-forge names each tag after the universal type with the same number. */
const CONTEXT_TAGS = {
  0: Type.NONE,
  1: Type.BOOLEAN,
  2: Type.INTEGER,
  3: Type.BITSTRING,
  7: Type.ODESC,
} as const;
type ContextTag = keyof typeof CONTEXT_TAGS;

export const explicit = (tag: ContextTag, ...nodes: readonly DerNode[]) =>
  asn1.create(Class.CONTEXT_SPECIFIC, CONTEXT_TAGS[tag], true, [...nodes]);

export const implicit = (tag: ContextTag, content: Uint8Array) =>
  asn1.create(Class.CONTEXT_SPECIFIC, CONTEXT_TAGS[tag], false, toBinary(content));

/** UTCTime through 2049, then GeneralizedTime (RFC 5280 §4.1.2.5). @throws Error if no certificate can hold the date */
export function time(date: Date): DerNode {
  const year = date.getUTCFullYear();
  if (!(year >= 1950 && year <= 9999))
    throw new Error(`a certificate cannot hold the date ${String(date)}: the year must be 1950 to 9999`);
  return year < 2050
    ? primitive(Type.UTCTIME, asn1.dateToUtcTime(date))
    : primitive(Type.GENERALIZEDTIME, asn1.dateToGeneralizedTime(date));
}

export const childrenOf = (node: DerNode | undefined): readonly DerNode[] =>
  node !== undefined && Array.isArray(node.value) ? node.value : [];

export const contentOf = (node: DerNode | undefined): Uint8Array =>
  typeof node?.value === 'string' ? ofBinary(node.value) : new Uint8Array();

export const objectIdOf = (node: DerNode | undefined): string =>
  typeof node?.value === 'string' && node.type === Type.OID ? asn1.derToOid(node.value) : '';

export const isContext = (node: DerNode | undefined, tag: ContextTag): boolean =>
  node?.tagClass === Class.CONTEXT_SPECIFIC && node.type === CONTEXT_TAGS[tag];

export const isBoolean = (node: DerNode | undefined): boolean =>
  node?.tagClass === Class.UNIVERSAL && node.type === Type.BOOLEAN;

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
  anyExtendedKeyUsage: '2.5.29.37.0',
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

/** URLs normalise IPv4 addresses to this form. No DNS name ends in a number (RFC 1123 §2.1). */
const DOTTED = /^\d+\.\d+\.\d+\.\d+$/;

/** 4 or 16 octets of an address as {@link canonicalAddress} or a URL writes it; undefined for a DNS name. */
export function addressBytes(host: string): Uint8Array | undefined {
  if (DOTTED.test(host)) return Uint8Array.from(host.split('.'), Number);
  if (!host.includes(':')) return undefined;
  const [head = '', tail] = host.split('::');
  const left = groupsOf(head);
  const right = tail === undefined ? [] : groupsOf(tail);
  const gap = Array.from({ length: 8 - left.length - right.length }, () => 0);
  return Uint8Array.from([...left, ...gap, ...right].flatMap((group) => [group >> 8, group & 0xff]));
}

/** URLs normalise IPv6 addresses to hexadecimal groups, without a dotted IPv4 end. */
const groupsOf = (text: string): readonly number[] =>
  text === '' ? [] : text.split(':').map((group) => Number.parseInt(group, 16));

/** The only text of this address; undefined if it is none, or is ambiguous: some readers take `010` for eight. */
export function canonicalAddress(text: string): string | undefined {
  if (DOTTED.test(text)) return URL.parse(`http://${text}`)?.hostname === text ? text : undefined;
  if (!/^[\da-f:.]*:[\da-f:.]*$/i.test(text)) return undefined;
  return URL.parse(`http://[${text}]`)?.hostname.slice(1, -1);
}

export function addressText(octets: Uint8Array): string {
  if (octets.length !== 16) return octets.join('.');
  const groups = Array.from({ length: 8 }, (_, group) =>
    Buffer.from(octets)
      .readUInt16BE(2 * group)
      .toString(16),
  );
  return canonicalAddress(groups.join(':')) ?? groups.join(':');
}

type DomainLimits = Pick<NameLimits, 'permittedDomains' | 'excludedDomains'>;
type AddressLimits = Pick<NameLimits, 'permittedAddresses' | 'excludedAddresses'>;

/** Whether `name` is `domain` or a subdomain of it. Compares whole labels. */
export const isInside = (name: string, domain: string): boolean =>
  name === domain || name.endsWith(`.${domain}`);

export const forbiddenName = (
  limits: readonly DomainLimits[],
  dnsNames: readonly string[],
): string | undefined => dnsNames.find((name) => !limits.every((limit) => permits(limit, name)));

const permits = ({ permittedDomains, excludedDomains }: DomainLimits, name: string): boolean =>
  (permittedDomains?.some((domain) => isInside(name, domain)) ?? true) &&
  !excludedDomains.some((domain) => domain === '' || isInside(name, domain));

export const forbiddenAddress = (
  limits: readonly AddressLimits[],
  addresses: readonly string[],
): string | undefined =>
  addresses.find((address) => !limits.every((limit) => permitsAddress(limit, address)));

function permitsAddress({ permittedAddresses, excludedAddresses }: AddressLimits, text: string): boolean {
  const address = addressBytes(text) ?? Uint8Array.of();
  const isInRange = (range: Uint8Array) =>
    range.length === 2 * address.length &&
    address.every((octet, index) => {
      const mask = range[address.length + index] ?? 0;
      return (octet & mask) === ((range[index] ?? 0) & mask);
    });
  return (permittedAddresses?.some(isInRange) ?? true) && !excludedAddresses.some(isInRange);
}

export const describeLimits = (limits: readonly DomainLimits[]): string =>
  limits
    .flatMap(({ permittedDomains = [], excludedDomains }) => [
      ...permittedDomains,
      ...excludedDomains.map((domain) => `not ${domain === '' ? 'any name' : domain}`),
    ])
    .join(', ');
