/** Keys and serial numbers: the only source of randomness in `pki`. */
import { generateKeyPair as generate, randomBytes, type KeyObject } from 'node:crypto';
import { toPrivateKeyPem, type PrivateKeyPem } from './pem.ts';

export const KEY_ALGORITHMS = ['ECDSA-P256', 'ECDSA-P384', 'RSA-2048', 'RSA-3072'] as const;
export type KeyAlgorithm = (typeof KEY_ALGORITHMS)[number];

export const DEFAULT_KEY_ALGORITHM: KeyAlgorithm = 'ECDSA-P256';

export const isKeyAlgorithm = (text: string): text is KeyAlgorithm =>
  KEY_ALGORITHMS.some((algorithm) => algorithm === text);

export interface KeyPair {
  readonly algorithm: KeyAlgorithm;
  readonly publicKey: KeyObject;
  readonly privateKey: PrivateKeyPem;
}

/** Makes a new key on a worker thread: an RSA key takes 0.1 s or more, which would block the event loop. */
export function generateKeyPair(algorithm: KeyAlgorithm): Promise<KeyPair> {
  const { promise, resolve, reject } = Promise.withResolvers<KeyPair>();
  const done = (error: Error | null, publicKey: KeyObject, privateKey: KeyObject) => {
    if (error === null) resolve({ algorithm, publicKey, privateKey: toPrivateKeyPem(privateKey) });
    else reject(new Error(`could not make a key of type ${algorithm}`, { cause: error }));
  };
  switch (algorithm) {
    case 'ECDSA-P256':
      generate('ec', { namedCurve: 'prime256v1' }, done);
      break;
    case 'ECDSA-P384':
      generate('ec', { namedCurve: 'secp384r1' }, done);
      break;
    case 'RSA-2048':
      generate('rsa', { modulusLength: 2048 }, done);
      break;
    case 'RSA-3072':
      generate('rsa', { modulusLength: 3072 }, done);
      break;
  }
  return promise;
}

/** The algorithm of a key; undefined if Gatehouse does not make such keys. */
export function keyAlgorithmOf({
  asymmetricKeyType,
  asymmetricKeyDetails,
}: KeyObject): KeyAlgorithm | undefined {
  const algorithm = `${asymmetricKeyType ?? ''} ${asymmetricKeyDetails?.namedCurve ?? asymmetricKeyDetails?.modulusLength ?? ''}`;
  return new Map<string, KeyAlgorithm>([
    ['ec prime256v1', 'ECDSA-P256'],
    ['ec secp384r1', 'ECDSA-P384'],
    ['rsa 2048', 'RSA-2048'],
    ['rsa 3072', 'RSA-3072'],
  ]).get(algorithm);
}

/**
 * A serial number of 128 random bits: attackers cannot guess it, and no two replicas draw the same number.
 * @returns the content of a DER INTEGER, from {@link toSerial}.
 */
export function randomSerial(): Uint8Array {
  return toSerial(randomBytes(16));
}

/**
 * Bytes as the content of a DER INTEGER that is positive and minimal, at most one octet longer than `bytes`
 * (RFC 5280 §4.1.2.2 allows 20 octets and forbids zero).
 */
export function toSerial(bytes: Uint8Array): Uint8Array {
  const firstUsed = bytes.findIndex((byte) => byte !== 0);
  if (firstUsed === -1) return Uint8Array.of(1);
  const magnitude = bytes.subarray(firstUsed);
  const sign = (magnitude[0] ?? 0) >= 0x80 ? 1 : 0; // without a leading zero octet, the top bit would be the sign
  const serial = new Uint8Array(sign + magnitude.length);
  serial.set(magnitude, sign);
  return serial;
}
