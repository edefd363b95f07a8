import { createHash, type KeyObject, type X509Certificate } from 'node:crypto';
import { certificateFields, KEY_USAGE } from '../x509/certificate-fields.ts';
import { nameConstraints, signCertificate, signRoot, subjectOf, type Issuer } from '../x509/certificate.ts';
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
import { memoizeWeak } from '../../json/objects.ts';
import { messageOf } from '../../json/error-message.ts';
import { TLS_CERT_KEY, TLS_PRIVATE_KEY_KEY } from '../annotations.ts';
import { inKey, textOf, type SecretData } from '../secret-data.ts';

/**
 * In the order of a generation's life. `pending`: clients trust the generation, but it does not sign yet. `active`: it
 * signs. `retiring`: clients trust it only because certs that it signed are still in use. A removed generation is not
 * stored.
 */
export const GENERATION_STATES = ['pending', 'active', 'retiring'] as const;
export type GenerationState = (typeof GENERATION_STATES)[number];

export const stageOf = (state: GenerationState): number => GENERATION_STATES.indexOf(state);

/** One life of the authority: a key and the self-signed root for it. */
export interface Generation {
  /** Eight hexadecimal digits, from the hash of the public key. */
  readonly id: string;
  readonly state: GenerationState;
  readonly certificate: CertificatePem;
  /** Undefined when the generation no longer signs. */
  readonly key: PrivateKeyPem | undefined;
  /** A certificate for this key, signed by the previous generation, for clients that know only the previous root. */
  readonly bridge: CertificatePem | undefined;
  readonly createdAt: Date;
  readonly publishedAt: Date | undefined;
  readonly activatedAt: Date | undefined;
  /** For a retiring generation: since when it has no serving certs left. */
  readonly drainedAt?: Date | undefined;
}

/** Every generation has all fields, so that a stored one equals the one in memory. */
export const UNUSED = {
  key: undefined,
  bridge: undefined,
  publishedAt: undefined,
  activatedAt: undefined,
  drainedAt: undefined,
} as const;

export const DEFAULT_AUTHORITY_LIFETIME = 2 * 365 * DAY;

/** Clients may use the CA even if their clocks are this much behind ours. */
const BACKDATE = HOUR;

export interface NewGeneration {
  readonly keyPair: KeyPair;
  readonly serial: Uint8Array;
  readonly now: Date;
  /** Milliseconds; two years if undefined. */
  readonly lifetimeMs?: number | undefined;
  /** The domains in which the generation may sign names; undefined: any name. */
  readonly domains?: readonly string[] | undefined;
  /** The previous generation, which signs the bridge. Undefined for the first one, or without overlap. */
  readonly previous?: Generation | undefined;
}

/**
 * A new `pending` generation. Its bridge ends no later than the root that signs it. It has no bridge if that root has
 * expired, because no client trusts it any more, or if that root allows no CA below it.
 * @throws Error if `previous` has lost its private key.
 */
export function createGeneration(request: NewGeneration): Generation {
  const { keyPair, serial, now, lifetimeMs = DEFAULT_AUTHORITY_LIFETIME, domains } = request;
  const id = generationId(keyPair.publicKey);
  // Each generation has its own name, because some stores index CAs by name, and verifiers could confuse them.
  const term = {
    serial, // root and bridge may share it, because they have different issuers
    notBefore: after(now, -BACKDATE),
    notAfter: after(now, lifetimeMs),
  };
  const { certificate } = signRoot(ownCommonName(id), keyPair, term, domains && nameConstraints(domains));
  return importGeneration({ id, certificate, key: keyPair.privateKey }, request);
}

const ownCommonName = (id: string): string => `gatehouse-serving-ca-${id}`;

/** Whether Gatehouse made this generation, and so makes the next one. The owner of an imported CA replaces it. */
export const isOwnGeneration = (generation: Generation): boolean =>
  rootOf(generation).subject === `CN=${ownCommonName(generation.id)}`;

/** A CA that the operator supplies in a Secret, after all checks. */
export interface ImportedAuthority {
  /** From the hash of the public key, as for every generation. */
  readonly id: string;
  readonly certificate: CertificatePem;
  readonly key: PrivateKeyPem;
}

/**
 * A `pending` generation with the key and the root of an imported CA.
 * @throws Error if `previous` has lost its private key.
 */
export function importGeneration(
  { id, certificate, key }: ImportedAuthority,
  { serial, now, previous }: Pick<NewGeneration, 'serial' | 'now' | 'previous'>,
): Generation {
  const bridge = signBridge(firstCertificate(certificate), { serial, now, previous });
  return { ...UNUSED, id, state: 'pending', certificate, key, bridge, createdAt: now };
}

function signBridge(
  root: X509Certificate,
  { serial, now, previous }: Pick<NewGeneration, 'serial' | 'now' | 'previous'>,
): CertificatePem | undefined {
  if (previous === undefined || isExpired(previous, now)) return undefined;
  const issuer = rootOf(previous);
  // Such a root allows no CA below it, so verifiers would reject a chain with this bridge.
  if (certificateFields(issuer).pathLength === 0) return undefined;
  return signCertificate(
    {
      subject: subjectOf(root),
      publicKey: root.publicKey,
      serial,
      notBefore: after(now, -BACKDATE),
      notAfter: earliest(root.validToDate, issuer.validToDate),
      purpose: { kind: 'authority', nameConstraints: certificateFields(root).nameConstraints },
    },
    issuerOf(previous),
  );
}

/** @throws Error if the generation has lost its private key. */
export function issuerOf(generation: Generation): Issuer {
  const { id, key } = generation;
  if (key === undefined)
    throw new Error(`generation ${id} of the authority cannot sign: its private key is gone`);
  return { ...subjectOf(rootOf(generation)), privateKey: key };
}

/** The id of the generation that has this key. */
export function generationId(publicKey: KeyObject): string {
  const spki = publicKey.export({ type: 'spki', format: 'der' });
  return createHash('sha256').update(spki).digest('hex').slice(0, 8);
}

/** Why clients could not use this certificate as the root of serving certs; undefined if they can. */
export function rootProblem(root: X509Certificate): string | undefined {
  const { subjectKeyId, keyUsage } = certificateFields(root);
  if (!root.ca) return 'it is not the certificate of a CA';
  if (keyUsage !== undefined && (keyUsage & KEY_USAGE.keyCertSign) === 0)
    return 'its key usage does not allow it to sign certificates';
  if (subjectKeyId === undefined) return 'it has no subject key identifier, by which chains find it';
  if (!root.checkIssued(root) || !root.verify(root.publicKey))
    return 'it is not self-signed, so clients cannot use it as a root';
  return undefined;
}

/** The parsed root, memoised: the same few roots verify thousands of signatures. */
export const rootOf = memoizeWeak(({ certificate }: Generation) => firstCertificate(certificate));

export const isExpired = (generation: Generation, now: Date): boolean =>
  rootOf(generation).validToDate <= now;

export type ImportResult =
  | { readonly kind: 'imported'; readonly authority: ImportedAuthority }
  /** For users: what is wrong, and where. */
  | { readonly kind: 'refused'; readonly problem: string };

/**
 * Reads an imported CA from the `data` of its Secret (values in base64): `tls.crt` with one self-signed root, and
 * `tls.key` with its key. Refuses an intermediate CA: clients get the certificate of the signer as their root, and
 * OpenSSL accepts only a self-signed root.
 */
export function importAuthority(data: SecretData | undefined, now: Date): ImportResult {
  try {
    return { kind: 'imported', authority: parseImported(data, now) };
  } catch (error) {
    return { kind: 'refused', problem: messageOf(error) };
  }
}

function parseImported(data: SecretData | undefined, now: Date): ImportedAuthority {
  for (const key of [TLS_CERT_KEY, TLS_PRIVATE_KEY_KEY])
    if ((textOf(data, key) ?? '') === '') throw new Error(`${key}: it is missing`);
  const root = inKey(TLS_CERT_KEY, () => parseRoot(textOf(data, TLS_CERT_KEY) ?? '', now));
  const key = inKey(TLS_PRIVATE_KEY_KEY, () => parsePrivateKeyPem(textOf(data, TLS_PRIVATE_KEY_KEY) ?? ''));
  if (!root.checkPrivateKey(privateKeyOf(key)))
    throw new Error(`${TLS_PRIVATE_KEY_KEY}: it is not the key of ${TLS_CERT_KEY}`);
  return { id: generationId(root.publicKey), certificate: toCertificatePem([root]), key };
}

function parseRoot(text: string, now: Date): X509Certificate {
  const root = onlyCertificate(text);
  const problem = rootProblem(root);
  if (problem !== undefined) throw new Error(problem);
  if (root.validToDate <= now) throw new Error(`it ended at ${root.validToDate.toISOString()}`);
  return root;
}

/** @throws Error if the text does not hold exactly one certificate. */
export function onlyCertificate(text: string): X509Certificate {
  const certificates = splitCertificates(text);
  const [certificate] = certificates;
  if (certificate === undefined || certificates.length > 1)
    throw new Error(`it holds ${certificates.length} certificates instead of one`);
  return certificate;
}
