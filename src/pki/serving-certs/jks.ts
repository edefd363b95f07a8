/**
 * JKS files, for Java applications that do not read PKCS#12. The format is not standardised: see JavaKeyStore.java and
 * KeyProtector.java in OpenJDK. Its encryption is weak and protects nothing here: the same Secret holds the plain key.
 */
import { createHash, createHmac, type X509Certificate } from 'node:crypto';
import { derNull, encode, objectId, octetString, sequence } from '../x509/der.ts';
import { privateKeyOf, splitCertificates, type CertificatePem } from '../x509/pem.ts';
import { KEY_ALIAS, trustAlias, type KeyStore } from './key-store.ts';

const MAGIC = 0xfeedfeed;
const VERSION = 2;
const KEY_ENTRY = 1;
const TRUSTED_ENTRY = 2;
/** Sun's private key protection. */
const KEY_PROTECTOR = '1.3.6.1.4.1.42.2.17.1.1';

/** A JKS file with the key and its chain. The same input gives the same bytes, as for PKCS#12. */
export function toJksKeyStore({ chain, privateKey, password }: KeyStore): Uint8Array {
  const key = privateKeyOf(privateKey).export({ type: 'pkcs8', format: 'der' });
  const [leaf, ...bridges] = splitCertificates(chain);
  if (leaf === undefined) throw new Error('a key store needs the certificate of its key');
  const salt = createHmac('sha256', key).update(`jks\0${password}\0${chain}`).digest().subarray(0, 20);
  const certificates = [leaf, ...bridges];
  const entry = [
    uint32(KEY_ENTRY),
    ...header(KEY_ALIAS, leaf),
    withLength(protect(key, password, salt)),
    uint32(certificates.length),
    ...certificates.flatMap(body),
  ];
  return file([entry], password);
}

/** A JKS file with trusted certificates. */
export const toJksTrustStore = (bundle: CertificatePem, password: string): Uint8Array =>
  file(
    splitCertificates(bundle).map((one) => [
      uint32(TRUSTED_ENTRY),
      ...header(trustAlias(one), one),
      ...body(one),
    ]),
    password,
  );

function file(entries: readonly (readonly Uint8Array[])[], password: string): Uint8Array {
  const content = Buffer.concat([uint32(MAGIC), uint32(VERSION), uint32(entries.length), ...entries.flat()]);
  const seal = createHash('sha1').update(utf16(password)).update('Mighty Aphrodite').update(content);
  return Buffer.concat([content, seal.digest()]);
}

/** The name and the time of an entry. The time is that of the certificate, so that it depends on the input alone. */
function header(alias: string, { validFromDate }: X509Certificate): readonly Uint8Array[] {
  const time = Buffer.alloc(8);
  time.writeBigInt64BE(BigInt(validFromDate.getTime()));
  return [text(alias), time];
}

const body = ({ raw }: X509Certificate): readonly Uint8Array[] => [text('X.509'), withLength(raw)];

/** EncryptedPrivateKeyInfo: the key XOR a chain of hashes that starts with the salt. A last hash checks the password. */
function protect(pkcs8: Uint8Array, password: string, salt: Uint8Array): Uint8Array {
  const encoded = utf16(password);
  const hashed = (bytes: Uint8Array) => createHash('sha1').update(encoded).update(bytes).digest();
  const stream: Uint8Array[] = [];
  for (let last = salt; stream.length * 20 < pkcs8.length;) stream.push((last = hashed(last)));
  const pad = Buffer.concat(stream);
  const encrypted = pkcs8.map((octet, index) => octet ^ (pad[index] ?? 0));
  const content = Buffer.concat([salt, encrypted, hashed(pkcs8)]);
  return encode(sequence(sequence(objectId(KEY_PROTECTOR), derNull()), octetString(content)));
}

function uint32(value: number): Uint8Array {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32BE(value);
  return bytes;
}

const withLength = (bytes: Uint8Array): Uint8Array => Buffer.concat([uint32(bytes.length), bytes]);

/** Java's modified UTF-8, which is ASCII for our names. */
function text(ascii: string): Uint8Array {
  const length = Buffer.alloc(2);
  length.writeUInt16BE(ascii.length);
  return Buffer.concat([length, Buffer.from(ascii, 'ascii')]);
}

/** UTF-16, big-endian: the encoding of passwords. */
const utf16 = (password: string): Buffer => Buffer.from(password, 'utf16le').swap16();
