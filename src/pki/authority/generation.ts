import { createHash, type KeyObject, type X509Certificate } from 'node:crypto';
import { certificateFields, KEY_USAGE } from '../x509/certificate-fields.ts';
import {
  commonName,
  keyIdOf,
  signCertificate,
  subjectOf,
  type CertificateTemplate,
  type Issuer,
} from '../x509/certificate.ts';
import { after, DAY, earliest, HOUR } from '../durations.ts';
import type { KeyPair } from '../x509/keys.ts';
import {
  firstCertificate,
  type CertificatePem,
  type PrivateKeyPem,
  parsePrivateKeyPem,
  privateKeyOf,
  splitCertificates,
  toCertificatePem,
} from '../x509/pem.ts';
import { TLS_CERT_KEY, TLS_PRIVATE_KEY_KEY } from '../annotations.ts';

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
  /** Of one that is retiring: since when no serving cert of it is left. */
  readonly drainedAt?: Date | undefined;
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
 * A new generation, `pending`. Its bridge ends no later than the root that signs it. There is none if that root has ended, for
 * nobody trusts it any more, or if it allows no CA below itself.
 * @throws Error if `previous` has lost its private key.
 */
export function createGeneration(request: NewGeneration): Generation {
  const { keyPair, serial, now, lifetimeMs = DEFAULT_AUTHORITY_LIFETIME, previous } = request;
  const id = generationId(keyPair.publicKey);
  const issuer: Issuer = {
    // A name for each generation: stores that index CAs by name keep all of them, and no verifier mistakes one for another.
    name: commonName(ownName(id)),
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
    bridge: signBridge(template, previous, now),
    createdAt: now,
    publishedAt: undefined,
    activatedAt: undefined,
  };
}

const ownName = (id: string): string => `gatehouse-serving-ca-${id}`;

/** Whether Gatehouse made it, and so makes the one after it: an imported CA is its owner's to replace. */
export const isOfOwnMake = (generation: Generation): boolean =>
  rootOf(generation).subject === `CN=${ownName(generation.id)}`;

/** A CA that somebody else made, read and checked. */
export interface ImportedAuthority {
  /** As of every generation: from the hash of the public key. */
  readonly id: string;
  readonly certificate: CertificatePem;
  readonly key: PrivateKeyPem;
}

/**
 * A generation, `pending`, with the key and the root of a CA that somebody else made.
 * @throws Error if `previous` has lost its private key.
 */
export function importGeneration(
  { id, certificate, key }: ImportedAuthority,
  { serial, now, previous }: Pick<NewGeneration, 'serial' | 'now' | 'previous'>,
): Generation {
  const root = firstCertificate(certificate);
  const template: CertificateTemplate = {
    subject: subjectOf(root),
    publicKey: root.publicKey,
    serial,
    notBefore: after(now, -BACKDATE),
    notAfter: root.validToDate,
    purpose: { kind: 'authority' },
  };
  return {
    id,
    state: 'pending',
    certificate,
    key,
    bridge: signBridge(template, previous, now),
    createdAt: now,
    publishedAt: undefined,
    activatedAt: undefined,
  };
}

function signBridge(
  template: CertificateTemplate,
  previous: Generation | undefined,
  now: Date,
): CertificatePem | undefined {
  if (previous === undefined || isExpired(previous, now)) return undefined;
  const root = rootOf(previous);
  // The owner of such a root allows no CA below it, so verifiers would refuse a chain for its bridge.
  if (certificateFields(root).pathLength === 0) return undefined;
  const notAfter = earliest(template.notAfter, root.validToDate);
  return signCertificate({ ...template, notAfter }, issuerOf(previous));
}

/** @throws Error if the generation has lost its private key. */
export function issuerOf(generation: Generation): Issuer {
  const { id, key } = generation;
  if (key === undefined)
    throw new Error(`generation ${id} of the authority cannot sign: its private key is gone`);
  return { ...subjectOf(rootOf(generation)), privateKey: key };
}

/** The id of the generation with this key. */
export function generationId(publicKey: KeyObject): string {
  const spki = publicKey.export({ type: 'spki', format: 'der' });
  return createHash('sha256').update(spki).digest('hex').slice(0, 8);
}

/** Why clients could not take this certificate as the root of serving certs; undefined if they can. */
export function rootProblem(root: X509Certificate): string | undefined {
  const { subjectKeyId, keyUsage } = certificateFields(root);
  if (!root.ca) return 'it is not the certificate of a CA';
  if (keyUsage !== undefined && (keyUsage & KEY_USAGE.keyCertSign) === 0)
    return 'its key usage does not allow it to sign certificates';
  if (subjectKeyId === undefined) return 'it has no subject key identifier, by which chains find it';
  if (!root.checkIssued(root) || !root.verify(root.publicKey))
    return 'it is not signed by itself, so no client can take it as a root';
  return undefined;
}

/** Thousands of signatures are checked by the same few roots: each is read once, and kept for as long as its generation. */
const roots = new WeakMap<Generation, X509Certificate>();

export function rootOf(generation: Generation): X509Certificate {
  const root = roots.get(generation) ?? firstCertificate(generation.certificate);
  roots.set(generation, root);
  return root;
}

export const isExpired = (generation: Generation, now: Date): boolean =>
  rootOf(generation).validToDate <= now;

export type ImportResult =
  | { readonly kind: 'imported'; readonly authority: ImportedAuthority }
  /** For people: what is wrong, and where. */
  | { readonly kind: 'refused'; readonly problem: string };

/**
 * Reads a CA that somebody else made from the `data` of their Secret (values in base64): `tls.crt` with one self-signed root,
 * `tls.key` with its key. An intermediate is refused: clients get the root of what signs, and OpenSSL takes no other.
 */
export function importAuthority(data: Readonly<Record<string, string>> | undefined, now: Date): ImportResult {
  const texts = [TLS_CERT_KEY, TLS_PRIVATE_KEY_KEY].map((key) => ({ key, text: textOf(data?.[key]) }));
  const [certificateText = '', keyText = ''] = texts.map(({ text }) => text);
  const missing = texts.find(({ text }) => text === undefined);
  if (missing !== undefined) return refused(missing.key, 'it is missing');
  let dataKey: string = TLS_CERT_KEY;
  try {
    const [root, ...others] = splitCertificates(certificateText);
    if (root === undefined || others.length > 0)
      return refused(
        dataKey,
        `it holds ${root === undefined ? 0 : others.length + 1} certificates instead of one`,
      );
    const problem = rootProblem(root);
    if (problem !== undefined) return refused(dataKey, problem);
    if (root.validToDate <= now) return refused(dataKey, `it ended at ${root.validToDate.toISOString()}`);
    dataKey = TLS_PRIVATE_KEY_KEY;
    const key = parsePrivateKeyPem(keyText);
    if (!root.checkPrivateKey(privateKeyOf(key)))
      return refused(dataKey, `it is not the key of ${TLS_CERT_KEY}`);
    return {
      kind: 'imported',
      authority: { id: generationId(root.publicKey), certificate: toCertificatePem([root]), key },
    };
  } catch (error) {
    return refused(dataKey, error instanceof Error ? error.message : String(error));
  }
}

const refused = (dataKey: string, problem: string): ImportResult => ({
  kind: 'refused',
  problem: `${dataKey}: ${problem}`,
});

const textOf = (base64: string | undefined): string | undefined =>
  base64 === undefined || base64 === '' ? undefined : Buffer.from(base64, 'base64').toString('utf8');
