/** PKCS#12 (RFC 7292) and JKS files, for applications that cannot read PEM. */
import { createCipheriv, createHash, createHmac, hash, pbkdf2, type X509Certificate } from 'node:crypto';
import { promisify } from 'node:util';
import {
  bmpString,
  derNull,
  encode,
  explicit,
  integer,
  objectId,
  octetString,
  sequence,
  setOf,
  type DerNode,
} from '../x509/certificate-fields.ts';
import { privateKeyOf, splitCertificates, type CertificatePem, type PrivateKeyPem } from '../x509/pem.ts';

/** Java's default. It protects nothing, and need not: the same Secret holds the plain key. */
export const DEFAULT_KEYSTORE_PASSWORD = 'changeit';

const KEY_ALIAS = 'tls';

const trustAlias = ({ fingerprint256 }: X509Certificate): string =>
  `ca-${fingerprint256.replaceAll(':', '').slice(0, 16).toLowerCase()}`;

const OID = {
  data: '1.2.840.113549.1.7.1',
  shroudedKeyBag: '1.2.840.113549.1.12.10.1.2',
  certBag: '1.2.840.113549.1.12.10.1.3',
  x509Certificate: '1.2.840.113549.1.9.22.1',
  friendlyName: '1.2.840.113549.1.9.20',
  localKeyId: '1.2.840.113549.1.9.21',
  /** Java trusts a certificate without a key only if it has this attribute. */
  trustedKeyUsage: '2.16.840.1.113894.746875.1.1',
  anyExtendedKeyUsage: '2.5.29.37.0',
  pbes2: '1.2.840.113549.1.5.13',
  pbkdf2: '1.2.840.113549.1.5.12',
  hmacWithSha256: '1.2.840.113549.2.9',
  aes256Cbc: '2.16.840.1.101.3.4.1.42',
  sha256: '2.16.840.1.101.3.4.2.1',
} as const;

export interface KeyStore {
  /** Leaf first. No root, because Java would send it to clients. */
  readonly chain: CertificatePem;
  readonly privateKey: PrivateKeyPem;
  readonly password: string;
}

/** Deterministic, so a file is checked by generating it again. Attackers cannot guess salts, which derive from the private key. */
export async function toKeyStore({ chain, privateKey, password }: KeyStore): Promise<Uint8Array> {
  const key = privateKeyOf(privateKey).export({ type: 'pkcs8', format: 'der' });
  const salted = (purpose: string) =>
    createHmac('sha256', key).update(`${purpose}\0${password}\0${chain}`).digest().subarray(0, 16);
  const [leaf, ...bridges] = splitCertificates(chain);
  if (leaf === undefined) throw new Error('a key store needs the certificate of its key');

  const id = octetString(createHash('sha1').update(leaf.raw).digest()); // any octets that the key and the cert share
  const shrouded = await encryptPrivateKey(key, password, { salt: salted('salt'), iv: salted('iv') });
  const marks = [friendlyName(KEY_ALIAS), attribute(OID.localKeyId, id)];
  const certificates = [certificateBag(leaf, ...marks), ...bridges.map((one) => certificateBag(one))];
  return pfx([certificates, [bag(OID.shroudedKeyBag, shrouded, ...marks)]], password, salted('mac'));
}

/** Each certificate has its own name, so that no reader replaces one by another. The same input gives the same bytes. */
export function toTrustStore(bundle: CertificatePem, password: string): Uint8Array {
  const certificates = splitCertificates(bundle).map((certificate) =>
    certificateBag(
      certificate,
      friendlyName(trustAlias(certificate)),
      attribute(OID.trustedKeyUsage, objectId(OID.anyExtendedKeyUsage)),
    ),
  );
  // A predictable salt is safe here: the certificates are public, so a guessed password reveals nothing else.
  const salt = createHash('sha256').update(bundle).digest().subarray(0, 16);
  return pfx([certificates], password, salt);
}

/** PFX: only the key is encrypted. A MAC covers everything. */
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

/** As in OpenSSL. More protect nothing: the Secret also holds the plain key. */
const ITERATIONS = 2048;
const ITERATIONS_DER = () => integer(Uint8Array.of(ITERATIONS >> 8, ITERATIONS & 0xff));

const deriveKey = promisify(pbkdf2);

/** EncryptedPrivateKeyInfo: `pkcs8` under PBKDF2 with HMAC-SHA-256 and AES-256-CBC. `salt` and `iv` have 16 octets. */
async function encryptPrivateKey(
  pkcs8: Uint8Array,
  password: string,
  { salt, iv }: { readonly salt: Uint8Array; readonly iv: Uint8Array },
): Promise<DerNode> {
  const key = await deriveKey(password, salt, ITERATIONS, 32, 'sha256');
  const cipher = createCipheriv('aes-256-cbc', key, iv);
  const encrypted = Buffer.concat([cipher.update(pkcs8), cipher.final()]);
  const kdf = sequence(
    objectId(OID.pbkdf2),
    sequence(octetString(salt), ITERATIONS_DER(), sequence(objectId(OID.hmacWithSha256), derNull())),
  );
  const scheme = sequence(objectId(OID.aes256Cbc), octetString(iv));
  return sequence(sequence(objectId(OID.pbes2), sequence(kdf, scheme)), octetString(encrypted));
}

/** MacData over `content`: readers use it to check the password. */
function macOf(content: Uint8Array, password: string, salt: Uint8Array): DerNode {
  const mac = createHmac('sha256', macKey(password, salt)).update(content).digest();
  return sequence(
    sequence(sequence(objectId(OID.sha256), derNull()), octetString(mac)),
    octetString(salt),
    ITERATIONS_DER(),
  );
}

/** Size of a SHA-256 block and of its result, in octets. */
const BLOCK = 64;
const RESULT = 32;
/** Diversifier: "this derives a key for a MAC". */
const FOR_MAC = 3;

/** RFC 7292 appendix B.2. The key is one hash result long, so the steps that mix blocks do not apply. */
function macKey(password: string, salt: Uint8Array): Uint8Array {
  const input = Buffer.concat([filled(salt), filled(utf16(`${password}\0`))]);
  let result: Uint8Array = Buffer.concat([Buffer.alloc(BLOCK, FOR_MAC), input]);
  for (let round = 0; round < ITERATIONS; round += 1) result = hash('sha256', result, 'buffer');
  return result.subarray(0, RESULT);
}

/** Repeats `bytes` to fill whole blocks. Empty input stays empty. */
const filled = (bytes: Uint8Array): Buffer =>
  Buffer.alloc(Math.ceil(bytes.length / BLOCK) * BLOCK, bytes.length === 0 ? 0 : bytes);

/** UTF-16, big-endian: the encoding of passwords in PKCS#12 and JKS. */
const utf16 = (text: string): Buffer => Buffer.from(text, 'utf16le').swap16();

/*
 * JKS files, for Java applications that do not read PKCS#12. The format is not standardised: see JavaKeyStore.java and
 * KeyProtector.java in OpenJDK. Its encryption is weak and protects nothing here: the same Secret holds the plain key.
 */
const JKS_MAGIC = 0xfeedfeed;
const JKS_VERSION = 2;
const KEY_ENTRY = 1;
const TRUSTED_ENTRY = 2;
/** Sun's private key protection. */
const KEY_PROTECTOR = '1.3.6.1.4.1.42.2.17.1.1';

export function toJksKeyStore({ chain, privateKey, password }: KeyStore): Uint8Array {
  const key = privateKeyOf(privateKey).export({ type: 'pkcs8', format: 'der' });
  const [leaf, ...bridges] = splitCertificates(chain);
  if (leaf === undefined) throw new Error('a key store needs the certificate of its key');
  const salt = createHmac('sha256', key).update(`jks\0${password}\0${chain}`).digest().subarray(0, 20);
  const certificates = [leaf, ...bridges];
  const entry = [
    uint32(KEY_ENTRY),
    ...entryHeader(KEY_ALIAS, leaf),
    withLength(protectKey(key, password, salt)),
    uint32(certificates.length),
    ...certificates.flatMap(entryBody),
  ];
  return jksFile([entry], password);
}

export const toJksTrustStore = (bundle: CertificatePem, password: string): Uint8Array =>
  jksFile(
    splitCertificates(bundle).map((one) => [
      uint32(TRUSTED_ENTRY),
      ...entryHeader(trustAlias(one), one),
      ...entryBody(one),
    ]),
    password,
  );

function jksFile(entries: readonly (readonly Uint8Array[])[], password: string): Uint8Array {
  const content = Buffer.concat([
    uint32(JKS_MAGIC),
    uint32(JKS_VERSION),
    uint32(entries.length),
    ...entries.flat(),
  ]);
  const seal = createHash('sha1').update(utf16(password)).update('Mighty Aphrodite').update(content);
  return Buffer.concat([content, seal.digest()]);
}

/** Uses the time of the certificate, so that the result depends only on the input. */
function entryHeader(alias: string, { validFromDate }: X509Certificate): readonly Uint8Array[] {
  const time = Buffer.alloc(8);
  time.writeBigInt64BE(BigInt(validFromDate.getTime()));
  return [javaText(alias), time];
}

const entryBody = ({ raw }: X509Certificate): readonly Uint8Array[] => [javaText('X.509'), withLength(raw)];

/** EncryptedPrivateKeyInfo: the key XOR a chain of hashes that starts with the salt. A last hash checks the password. */
function protectKey(pkcs8: Uint8Array, password: string, salt: Uint8Array): Uint8Array {
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
function javaText(ascii: string): Uint8Array {
  const length = Buffer.alloc(2);
  length.writeUInt16BE(ascii.length);
  return Buffer.concat([length, Buffer.from(ascii, 'ascii')]);
}
