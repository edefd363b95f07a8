/** PKCS#12 files (RFC 7292) for applications that read no PEM: Java, .NET and others. */
import { createHash, createHmac, type X509Certificate } from 'node:crypto';
import {
  bmpString,
  encode,
  explicit,
  integer,
  objectId,
  octetString,
  sequence,
  setOf,
  type DerNode,
} from './der.ts';
import { encryptPrivateKey, macOf } from './key-store-encryption.ts';
import { privateKeyOf, splitCertificates, type CertificatePem, type PrivateKeyPem } from './pem.ts';

/** Java's own. It guards nothing, which is honest: the same Secret holds the key in clear. */
export const DEFAULT_KEYSTORE_PASSWORD = 'changeit';

/** The name under which Java and others find the key. */
const KEY_ALIAS = 'tls';

const OID = {
  data: '1.2.840.113549.1.7.1',
  shroudedKeyBag: '1.2.840.113549.1.12.10.1.2',
  certBag: '1.2.840.113549.1.12.10.1.3',
  x509Certificate: '1.2.840.113549.1.9.22.1',
  friendlyName: '1.2.840.113549.1.9.20',
  localKeyId: '1.2.840.113549.1.9.21',
  /** Java takes a certificate without a key for trusted only if it carries this. */
  trustedKeyUsage: '2.16.840.1.113894.746875.1.1',
  anyExtendedKeyUsage: '2.5.29.37.0',
} as const;

export interface KeyStore {
  /** Leaf first. No root: Java would serve it to clients. */
  readonly chain: CertificatePem;
  readonly privateKey: PrivateKeyPem;
  readonly password: string;
}

/**
 * A PKCS#12 file with the key and its chain. The same input gives the same bytes: salts are drawn from the private key, which
 * nobody can guess who may not read the file anyway. So a file is compared by making it again.
 */
export async function toKeyStore({ chain, privateKey, password }: KeyStore): Promise<Uint8Array> {
  const key = privateKeyOf(privateKey).export({ type: 'pkcs8', format: 'der' });
  const salted = (purpose: string) =>
    createHmac('sha256', key).update(`${purpose}\0${password}\0${chain}`).digest().subarray(0, 16);
  const [leaf, ...bridges] = splitCertificates(chain);
  if (leaf === undefined) throw new Error('a key store needs the certificate of its key');

  const id = octetString(createHash('sha1').update(leaf.raw).digest()); // any octets that key and cert have in common
  const shrouded = await encryptPrivateKey(key, password, { salt: salted('salt'), iv: salted('iv') });
  const marks = [friendlyName(KEY_ALIAS), attribute(OID.localKeyId, id)];
  const certificates = [certificateBag(leaf, ...marks), ...bridges.map((one) => certificateBag(one))];
  return pfx([certificates, [bag(OID.shroudedKeyBag, shrouded, ...marks)]], password, salted('mac'));
}

/**
 * A PKCS#12 file with certificates to trust, each under a name of its own, so that no reader drops one for another.
 * As {@link toKeyStore}, the same input gives the same bytes.
 */
export function toTrustStore(bundle: CertificatePem, password: string): Uint8Array {
  const certificates = splitCertificates(bundle).map((certificate) =>
    certificateBag(
      certificate,
      friendlyName(`ca-${certificate.fingerprint256.replaceAll(':', '').slice(0, 16).toLowerCase()}`),
      attribute(OID.trustedKeyUsage, objectId(OID.anyExtendedKeyUsage)),
    ),
  );
  // Certificates are public: all that a guesser of the password could win is the password, as from any salt.
  const salt = createHash('sha256').update(bundle).digest().subarray(0, 16);
  return pfx([certificates], password, salt);
}

/** PFX: everything is in the clear but the key, and a MAC over all of it. */
function pfx(contents: readonly (readonly DerNode[])[], password: string, salt: Uint8Array): Uint8Array {
  const safe = encode(sequence(...contents.map((bags) => dataContent(encode(sequence(...bags))))));
  return encode(sequence(integer(Uint8Array.of(3)), dataContent(safe), macOf(safe, password, salt)));
}

const dataContent = (der: Uint8Array): DerNode => sequence(objectId(OID.data), explicit(0, octetString(der)));

function bag(type: string, value: DerNode, ...attributes: readonly DerNode[]): DerNode {
  return sequence(
    objectId(type),
    explicit(0, value),
    ...(attributes.length === 0 ? [] : [setOf(...attributes)]),
  );
}

const certificateBag = ({ raw }: X509Certificate, ...attributes: readonly DerNode[]): DerNode =>
  bag(OID.certBag, sequence(objectId(OID.x509Certificate), explicit(0, octetString(raw))), ...attributes);

const attribute = (id: string, value: DerNode): DerNode => sequence(objectId(id), setOf(value));

const friendlyName = (name: string): DerNode => attribute(OID.friendlyName, bmpString(name));
