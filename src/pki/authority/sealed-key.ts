/** Private keys of the authority. Only its Secret opens one: no log, metric or object that holds a name has the key. */
import { sign } from 'node:crypto';
import { promisify } from 'node:util';
import { privateKeyOf, type PrivateKeyPem } from '../x509/pem.ts';
import type { Sign } from '../x509/certificate.ts';

export interface SealedKey {
  readonly id: string;
}

const keys = new WeakMap<SealedKey, PrivateKeyPem>();

export function sealKey(id: string, pem: PrivateKeyPem): SealedKey {
  const sealed = { id };
  keys.set(sealed, pem);
  return sealed;
}

/** For the Secret of the authority and for signatures. @throws Error if another process holds the key */
export function openKey(sealed: SealedKey): PrivateKeyPem {
  const pem = keys.get(sealed);
  if (pem === undefined) throw new Error(`the private key of generation ${sealed.id} is not in this process`);
  return pem;
}

const signOnThread = promisify(sign);

export const signWith =
  (pem: PrivateKeyPem): Sign =>
  ({ hash }, bytes) =>
    signOnThread(hash, bytes, privateKeyOf(pem));
