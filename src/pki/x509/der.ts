/** The ASN.1 types that certificates need (X.690 DER), based on node-forge. */
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
