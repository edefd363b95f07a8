/** The two ways in which a password guards a PKCS#12 file: PBES2 (RFC 8018 §6.2) and the older one of its MAC (RFC 7292 app. B). */
import { createCipheriv, createHmac, hash, pbkdf2 } from 'node:crypto';
import { promisify } from 'node:util';
import { integer, nothing, objectId, octetString, sequence, type DerNode } from './der.ts';

/**
 * As OpenSSL writes it. More would slow down every application that opens the file and guard nothing: the Secret that holds it
 * holds the same key in clear.
 */
const ITERATIONS = 2048;
const ITERATIONS_DER = () => integer(Uint8Array.of(ITERATIONS >> 8, ITERATIONS & 0xff));

const OID = {
  pbes2: '1.2.840.113549.1.5.13',
  pbkdf2: '1.2.840.113549.1.5.12',
  hmacWithSha256: '1.2.840.113549.2.9',
  aes256Cbc: '2.16.840.1.101.3.4.1.42',
  sha256: '2.16.840.1.101.3.4.2.1',
} as const;

const deriveKey = promisify(pbkdf2);

/** EncryptedPrivateKeyInfo: `pkcs8` under PBKDF2 with HMAC-SHA-256 and AES-256-CBC. `salt` and `iv` have 16 octets. */
export async function encryptPrivateKey(
  pkcs8: Uint8Array,
  password: string,
  { salt, iv }: { readonly salt: Uint8Array; readonly iv: Uint8Array },
): Promise<DerNode> {
  const key = await deriveKey(password, salt, ITERATIONS, 32, 'sha256');
  const cipher = createCipheriv('aes-256-cbc', key, iv);
  const encrypted = Buffer.concat([cipher.update(pkcs8), cipher.final()]);
  const kdf = sequence(
    objectId(OID.pbkdf2),
    sequence(octetString(salt), ITERATIONS_DER(), sequence(objectId(OID.hmacWithSha256), nothing())),
  );
  const scheme = sequence(objectId(OID.aes256Cbc), octetString(iv));
  return sequence(sequence(objectId(OID.pbes2), sequence(kdf, scheme)), octetString(encrypted));
}

/** MacData over `content`, by which a reader finds out that the password is right. */
export function macOf(content: Uint8Array, password: string, salt: Uint8Array): DerNode {
  const mac = createHmac('sha256', macKey(password, salt)).update(content).digest();
  return sequence(
    sequence(sequence(objectId(OID.sha256), nothing()), octetString(mac)),
    octetString(salt),
    ITERATIONS_DER(),
  );
}

/** Octets of a block of SHA-256, and of its result. */
const BLOCK = 64;
const RESULT = 32;
/** Diversifier: "this derives a key for a MAC". */
const FOR_MAC = 3;

/** RFC 7292 appendix B.2, for one result of the hash: then its steps that mix blocks fall away. */
function macKey(password: string, salt: Uint8Array): Uint8Array {
  const input = Buffer.concat([filled(salt), filled(utf16(`${password}\0`))]);
  let result: Uint8Array = Buffer.concat([Buffer.alloc(BLOCK, FOR_MAC), input]);
  for (let round = 0; round < ITERATIONS; round += 1) result = hash('sha256', result, 'buffer');
  return result.subarray(0, RESULT);
}

/** Repeated until it fills whole blocks; of nothing, nothing. */
const filled = (bytes: Uint8Array): Buffer =>
  Buffer.alloc(Math.ceil(bytes.length / BLOCK) * BLOCK, bytes.length === 0 ? 0 : bytes);

/** UTF-16, big-endian: how PKCS#12 takes a password. */
const utf16 = (text: string): Buffer => Buffer.from(text, 'utf16le').swap16();
