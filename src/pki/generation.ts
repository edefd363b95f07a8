import { createHash, type KeyObject, type X509Certificate } from 'node:crypto';
import { commonName, keyIdOf, signCertificate, subjectOf, type Issuer } from './certificate.ts';
import { after, DAY, earliest, HOUR } from './durations.ts';
import type { KeyPair } from './keys.ts';
import { firstCertificate, type CertificatePem, type PrivateKeyPem } from './pem.ts';

/**
 * Where a generation stands: `pending` is trusted but signs nothing yet, `active` signs, `retiring` is trusted for the sake of
 * the certs it signed. One that is gone is no longer stored.
 */
export type GenerationState = 'pending' | 'active' | 'retiring';

/** One life of the authority: a key, and the self-signed root that speaks for it. */
export interface Generation {
  /** Eight hexadecimal digits, from the hash of the public key. */
  readonly id: string;
  readonly state: GenerationState;
  readonly certificate: CertificatePem;
  /** Undefined once it has nothing left to sign. */
  readonly key: PrivateKeyPem | undefined;
  /** This generation's key, signed by the generation before it: leads clients who know only that one's root to this key. */
  readonly bridge: CertificatePem | undefined;
  readonly createdAt: Date;
  readonly publishedAt: Date | undefined;
  readonly activatedAt: Date | undefined;
}

export const DEFAULT_AUTHORITY_LIFETIME = 2 * 365 * DAY;

/** A CA may be used by machines whose clocks are this much behind ours. */
const BACKDATE = HOUR;

export interface NewGeneration {
  readonly keyPair: KeyPair;
  readonly serial: Uint8Array;
  readonly now: Date;
  /** Milliseconds; two years if undefined. */
  readonly lifetimeMs?: number | undefined;
  /** The generation before it, which signs the bridge. Undefined for the first, and for a hard cut without overlap. */
  readonly previous?: Generation | undefined;
}

/**
 * A new generation, `pending`. Its bridge ends no later than the root that signs it; if that root has ended there is no bridge,
 * for nobody trusts it any more.
 * @throws Error if `previous` has lost its private key.
 */
export function createGeneration(request: NewGeneration): Generation {
  const { keyPair, serial, now, lifetimeMs = DEFAULT_AUTHORITY_LIFETIME, previous } = request;
  const id = generationId(keyPair.publicKey);
  const issuer: Issuer = {
    // A name for each generation: stores that index CAs by name keep all of them, and no verifier mistakes one for another.
    name: commonName(`gatehouse-serving-ca-${id}`),
    keyId: keyIdOf(keyPair.publicKey),
    privateKey: keyPair.privateKey,
  };
  const template = {
    subject: issuer,
    publicKey: keyPair.publicKey,
    serial, // root and bridge have different issuers, so they may share it
    notBefore: after(now, -BACKDATE),
    notAfter: after(now, lifetimeMs),
    purpose: { kind: 'authority' },
  } as const;
  return {
    id,
    state: 'pending',
    certificate: signCertificate(template, issuer),
    key: keyPair.privateKey,
    bridge: previous === undefined || isExpired(previous, now) ? undefined : signBridge(template, previous),
    createdAt: now,
    publishedAt: undefined,
    activatedAt: undefined,
  };
}

function signBridge(template: Parameters<typeof signCertificate>[0], previous: Generation): CertificatePem {
  const notAfter = earliest(template.notAfter, rootOf(previous).validToDate);
  return signCertificate({ ...template, notAfter }, issuerOf(previous));
}

/** @throws Error if the generation has lost its private key. */
export function issuerOf(generation: Generation): Issuer {
  const { id, key } = generation;
  if (key === undefined)
    throw new Error(`generation ${id} of the authority cannot sign: its private key is gone`);
  return { ...subjectOf(rootOf(generation)), privateKey: key };
}

function generationId(publicKey: KeyObject): string {
  const spki = publicKey.export({ type: 'spki', format: 'der' });
  return createHash('sha256').update(spki).digest('hex').slice(0, 8);
}

export const rootOf = ({ certificate }: Generation): X509Certificate => firstCertificate(certificate);

export const isExpired = (generation: Generation, now: Date): boolean =>
  rootOf(generation).validToDate <= now;
