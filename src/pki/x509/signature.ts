import type { KeyObject } from 'node:crypto';

import { derNull, objectId, sequence, type DerNode } from './der.ts';

/** The algorithm by which a CA signs. The signer hashes the bytes, because some signers take no digest. */
export interface SignatureAlgorithm {
  readonly name: 'RSA-SHA256' | 'ECDSA-SHA256' | 'ECDSA-SHA384';
  readonly hash: 'sha256' | 'sha384';
}

/** Signs with one key. It may be in another process. The signature is as in X.509: ECDSA in DER. */
export type Sign = (algorithm: SignatureAlgorithm, bytes: Uint8Array) => Promise<Uint8Array>;

/** The algorithm for a CA's key. @throws Error if such a key cannot sign certificates */
export function signatureAlgorithm(publicKey: KeyObject): SignatureAlgorithm {
  const curve = publicKey.asymmetricKeyDetails?.namedCurve;
  if (publicKey.asymmetricKeyType === 'rsa') return { name: 'RSA-SHA256', hash: 'sha256' };
  if (curve === 'prime256v1') return { name: 'ECDSA-SHA256', hash: 'sha256' };
  if (curve === 'secp384r1') return { name: 'ECDSA-SHA384', hash: 'sha384' };
  throw new Error('only RSA, P-256 and P-384 keys can sign certificates');
}

/** RFC 4055 §5 (RSA: parameters NULL), RFC 5758 §3.2 (ECDSA: no parameters). */
export function algorithmIdentifier({ name }: SignatureAlgorithm): DerNode {
  switch (name) {
    case 'RSA-SHA256':
      return sequence(objectId('1.2.840.113549.1.1.11'), derNull());
    case 'ECDSA-SHA256':
      return sequence(objectId('1.2.840.10045.4.3.2'));
    case 'ECDSA-SHA384':
      return sequence(objectId('1.2.840.10045.4.3.3'));
  }
}
