import { createHash, type KeyObject, sign, type X509Certificate } from 'node:crypto';
import { isDeepStrictEqual, promisify } from 'node:util';

import { certificateFields, KEY_USAGE } from '../x509/certificate-fields.ts';
import {
  type Issuer,
  nameConstraints,
  type Sign,
  signCertificate,
  signRoot,
  subjectOf,
} from '../x509/certificate.ts';
import { after, CLOCK_TOLERANCE, DAY, earliest, latest } from '../durations.ts';
import type { KeyPair } from '../x509/keys.ts';
import { hasIssued, nameOf, pathProblem } from '../x509/chains.ts';
import {
  type CertificatePem,
  firstCertificate,
  joinCertificatePems,
  privateKeyOf,
  type PrivateKeyPem,
  splitCertificates,
} from '../x509/pem.ts';
import { memoizeWeak } from '../../json/json.ts';

/** In the order of a life. Clients trust all three; only `active` signs, and `retiring` has certs in use. */
export const GENERATION_STATES = ['pending', 'active', 'retiring'] as const;
export type GenerationState = (typeof GENERATION_STATES)[number];

export const stageOf = (state: GenerationState): number => GENERATION_STATES.indexOf(state);

export interface Generation {
  readonly id: string;
  readonly state: GenerationState;
  /** A self-signed root, or an intermediate CA of an organisation. */
  readonly certificate: CertificatePem;
  /** The issuers of an intermediate CA, up to the self-signed root. Undefined for a root. */
  readonly chain?: CertificatePem | undefined;
  /** Earlier roots for the same key and name, which their owner renewed. Clients trust each until its own end. */
  readonly formerRoots?: CertificatePem | undefined;
  readonly key: SealedKey | undefined;
  /** A certificate for the key of the root, signed by the previous generation, for clients that know only its root. */
  readonly bridge: CertificatePem | undefined;
  readonly createdAt: Date;
  readonly publishedAt: Date | undefined;
  readonly activatedAt: Date | undefined;
  /** Stored before a cert that ends then is signed. Never decreases. Undefined: pending, or from an older version. */
  readonly trustedUntil?: Date | undefined;
}

/** Of the operator, after all checks. */
export interface ImportedAuthority {
  readonly id: string;
  readonly certificate: CertificatePem;
  readonly chain?: CertificatePem | undefined;
  readonly key: SealedKey;
}

/** Every generation has all fields, so that a stored one equals the one in memory. */
export const UNUSED = {
  chain: undefined,
  formerRoots: undefined,
  key: undefined,
  bridge: undefined,
  publishedAt: undefined,
  activatedAt: undefined,
  trustedUntil: undefined,
} as const;

export const DEFAULT_AUTHORITY_LIFETIME = 2 * 365 * DAY;

export interface NewGeneration {
  readonly keyPair: KeyPair;
  readonly serial: Uint8Array;
  readonly now: Date;
  readonly lifetimeMs?: number | undefined;
  /** The domains in which the generation may sign names; undefined: any name. */
  readonly domains?: readonly string[] | undefined;
  /** It signs the bridge. Undefined for the first generation, or without overlap. */
  readonly previous?: Generation | undefined;
}

/** A new `pending` generation. @throws Error if `previous` has lost its private key */
export async function createGeneration(request: NewGeneration): Promise<Generation> {
  const { keyPair, serial, now, lifetimeMs = DEFAULT_AUTHORITY_LIFETIME, domains } = request;
  const id = generationId(keyPair.publicKey);
  // Each generation has its own name, because some stores index CAs by name, and verifiers could confuse them.
  const term = {
    serial, // root and bridge may share it, because they have different issuers
    notBefore: after(now, -CLOCK_TOLERANCE),
    notAfter: after(now, lifetimeMs),
  };
  const { publicKey, privateKey } = keyPair;
  const issuer = { publicKey, sign: signWith(privateKey) };
  const constraints = domains && nameConstraints(domains);
  const { certificate } = await signRoot(ownCommonName(id), issuer, term, constraints);
  return await importGeneration({ id, certificate, key: sealKey(id, privateKey) }, request);
}

const ownCommonName = (id: string): string => `gatehouse-serving-ca-${id}`;

/** Whether Gatehouse made this root: its name contains the hash of its key. */
export const isOwnRoot = (root: X509Certificate): boolean =>
  root.subject === `CN=${ownCommonName(generationId(root.publicKey))}`;

/** Whether Gatehouse made this generation, and so makes the next one. The owner of an imported CA replaces it. */
export const isOwnGeneration = (generation: Generation): boolean => isOwnRoot(rootOf(generation));

/** A `pending` generation for an imported CA. @throws Error if `previous` has lost its private key */
export async function importGeneration(
  { id, certificate, chain, key }: ImportedAuthority,
  request: BridgeRequest,
): Promise<Generation> {
  const generation = { ...UNUSED, id, certificate, chain, key, createdAt: request.now } as const;
  return { ...generation, state: 'pending', bridge: await signBridge(pathOf(generation), request) };
}

type BridgeRequest = Pick<NewGeneration, 'serial' | 'now' | 'previous'>;

/** The root of `path`, signed by the previous generation. Undefined if no client needs or accepts this bridge. */
async function signBridge(
  path: readonly X509Certificate[],
  { serial, now, previous }: BridgeRequest,
): Promise<CertificatePem | undefined> {
  const root = path.at(-1);
  if (root === undefined || previous === undefined || isExpired(previous, now)) return undefined;
  const signer = issuerOf(previous);
  const above = pathOf(previous);
  if (isSameCa(root, rootOf(previous)) || pathProblem(above, now, 'tolerant') !== undefined) return undefined;
  const bridge = await signCertificate(
    {
      subject: subjectOf(root),
      publicKey: root.publicKey,
      serial,
      notBefore: after(now, -CLOCK_TOLERANCE),
      notAfter: earliest(root.validToDate, lifeOf(previous).notAfter),
      purpose: { kind: 'authority', nameConstraints: certificateFields(root).nameConstraints },
    },
    signer,
  );
  const served = [...path.slice(0, -1), firstCertificate(bridge)];
  return pathProblem([...served, ...above], now, 'tolerant') === undefined ? bridge : undefined;
}

/** @throws Error if the generation has lost its private key. */
export function issuerOf(generation: Certificates & Pick<Generation, 'id' | 'key'>): Issuer {
  const { id, key } = generation;
  if (key === undefined)
    throw new Error(`generation ${id} of the authority cannot sign: its private key is gone`);
  const ca = caOf(generation);
  const { publicKey } = ca;
  return { ...subjectOf(ca), publicKey, sign: signWith(openKey(key)) };
}

export function generationId(publicKey: KeyObject): string {
  const spki = publicKey.export({ type: 'spki', format: 'der' });
  return createHash('sha256').update(spki).digest('hex').slice(0, 8);
}

type Certificates = Pick<Generation, 'certificate' | 'chain'>;

/** The CAs above a leaf: the one that signs, then its issuers up to the root. Memoised: few verify thousands of leaves. */
export const pathOf = memoizeWeak(
  ({ certificate, chain = '' as CertificatePem }: Certificates): readonly X509Certificate[] =>
    splitCertificates(joinCertificatePems([certificate, chain])),
);

export const caOf = (generation: Certificates): X509Certificate => present(pathOf(generation)[0]);

export const rootOf = (generation: Certificates): X509Certificate => present(pathOf(generation).at(-1));

export const rootsOf = memoizeWeak((generation: Generation): readonly X509Certificate[] => [
  rootOf(generation),
  ...splitCertificates(generation.formerRoots ?? ''),
]);

/** The roots of this generation that stay trusted, each until its own end, when `root` becomes its root. */
export const formerRoots = (generation: Generation, root: X509Certificate, now: Date) =>
  rootsOf(generation).filter(
    ({ validToDate, fingerprint256 }) => validToDate > now && fingerprint256 !== root.fingerprint256,
  );

export const intermediatesOf = (generation: Certificates): readonly X509Certificate[] =>
  pathOf(generation).slice(0, -1);

function present(certificate: X509Certificate | undefined): X509Certificate {
  if (certificate === undefined) throw new Error('there is no PEM certificate');
  return certificate;
}

export const lifeOf = memoizeWeak((generation: Certificates) => {
  const path = pathOf(generation);
  return {
    notBefore: latest(...path.map(({ validFromDate }) => validFromDate)),
    notAfter: earliest(...path.map(({ validToDate }) => validToDate)),
  };
});

export const isExpired = (generation: Generation, now: Date): boolean => lifeOf(generation).notAfter <= now;

/** Whether two certificates are of one CA: what one verifies, the other one verifies too. */
export const isSameCa = (one: X509Certificate, other: X509Certificate): boolean =>
  one.publicKey.equals(other.publicKey) && isDeepStrictEqual(subjectOf(one), subjectOf(other));

export function structureProblem(path: readonly X509Certificate[]): string | undefined {
  for (const [index, ca] of path.entries()) {
    const problem = linkProblem(ca, path[index + 1] ?? ca);
    if (problem !== undefined) return path.length === 1 ? problem : `${nameOf(ca)}: ${problem}`;
  }
  return undefined;
}

function linkProblem(ca: X509Certificate, issuer: X509Certificate): string | undefined {
  const { subjectKeyId, keyUsage } = certificateFields(ca);
  if (!ca.ca) return 'it is not the certificate of a CA';
  if (keyUsage !== undefined && (keyUsage & KEY_USAGE.keyCertSign) === 0)
    return 'its key usage does not allow it to sign certificates';
  if (subjectKeyId === undefined) return 'it lacks a subject key identifier, which chains need';
  if (hasIssued(issuer, ca)) return undefined;
  return ca === issuer
    ? 'it is not self-signed, so clients cannot use it as a root'
    : `${nameOf(issuer)} did not issue it`;
}

/** @throws Error if the text does not hold exactly one certificate. */
export function onlyCertificate(text: string): X509Certificate {
  const certificates = splitCertificates(text);
  const [certificate] = certificates;
  if (certificate === undefined || certificates.length > 1)
    throw new Error(`it holds ${certificates.length} certificates instead of one`);
  return certificate;
}

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
