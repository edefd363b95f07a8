/** Keys and serial numbers: the only source of randomness in `pki`. */
import { generateKeyPair as generateKeyPairOnThread, randomBytes, type KeyObject } from 'node:crypto';
import { promisify } from 'node:util';
import { toPrivateKeyPem, type PrivateKeyPem } from './pem.ts';

const generate = promisify(generateKeyPairOnThread);

const GENERATORS = {
  'ECDSA-P256': () => generate('ec', { namedCurve: 'prime256v1' }),
  'ECDSA-P384': () => generate('ec', { namedCurve: 'secp384r1' }),
  'RSA-2048': () => generate('rsa', { modulusLength: 2048 }),
  'RSA-3072': () => generate('rsa', { modulusLength: 3072 }),
  /** For leaves only: a CA with such a key cannot sign. */
  Ed25519: () => generate('ed25519'),
};
export type KeyAlgorithm = keyof typeof GENERATORS;

export const isKeyAlgorithm = (text: string): text is KeyAlgorithm => Object.hasOwn(GENERATORS, text);

export const KEY_ALGORITHMS: readonly KeyAlgorithm[] = Object.keys(GENERATORS).filter(isKeyAlgorithm);
export const DEFAULT_KEY_ALGORITHM: KeyAlgorithm = 'ECDSA-P256';

export interface KeyPair {
  readonly algorithm: KeyAlgorithm;
  readonly publicKey: KeyObject;
  readonly privateKey: PrivateKeyPem;
}

/** Makes a new key on a worker thread: an RSA key takes 0.1 s or more, which would block the event loop. */
export async function generateKeyPair(algorithm: KeyAlgorithm): Promise<KeyPair> {
  try {
    const { publicKey, privateKey } = await GENERATORS[algorithm]();
    return { algorithm, publicKey, privateKey: toPrivateKeyPem(privateKey) };
  } catch (cause) {
    throw new Error(`could not make a key of type ${algorithm}`, { cause });
  }
}

export function keyAlgorithmOf(key: KeyObject): KeyAlgorithm | undefined {
  const { namedCurve, modulusLength } = key.asymmetricKeyDetails ?? {};
  return new Map<string, KeyAlgorithm>([
    ['ec prime256v1', 'ECDSA-P256'],
    ['ec secp384r1', 'ECDSA-P384'],
    ['rsa 2048', 'RSA-2048'],
    ['rsa 3072', 'RSA-3072'],
    ['ed25519 ', 'Ed25519'],
  ]).get(`${key.asymmetricKeyType ?? ''} ${namedCurve ?? modulusLength ?? ''}`);
}

/** 128 random bits: attackers cannot guess it, and no two replicas draw the same number. */
export const randomSerial = (): Uint8Array => toSerial(randomBytes(16));

/** A DER INTEGER, positive and minimal, at most one octet longer (RFC 5280 §4.1.2.2 allows 20 octets, forbids zero). */
export function toSerial(bytes: Uint8Array): Uint8Array {
  const firstUsed = bytes.findIndex((byte) => byte !== 0);
  if (firstUsed === -1) return Uint8Array.of(1);
  const magnitude = bytes.subarray(firstUsed);
  const sign = (magnitude[0] ?? 0) >= 0x80 ? 1 : 0; // without a leading zero octet, the top bit would be the sign
  const serial = new Uint8Array(sign + magnitude.length);
  serial.set(magnitude, sign);
  return serial;
}
