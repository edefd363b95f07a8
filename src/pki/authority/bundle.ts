import type { X509Certificate } from 'node:crypto';
import { uniqueBy } from '../../json/json.ts';
import { type Authority, activeGeneration, bridgesFrom } from './authority.ts';
import { lifeOf, rootOf, rootsOf, type Generation } from './generation.ts';
import {
  readableCertificates,
  toCertificatePem,
  type CertificatePem,
  firstCertificate,
} from '../x509/pem.ts';
import { after, earliest, HOUR } from '../durations.ts';

/** Many objects hold a copy of the CA bundle, and ConfigMaps and etcd values have size limits. */
export const MAX_BUNDLE_BYTES = 64 * 1024;

/** The unexpired roots, newest first. @throws Error if no root is left, or the bundle is larger than 64 KiB */
export function caBundle(authority: Authority, now: Date): CertificatePem {
  const roots = bundleRoots(authority, now);
  if (roots.length === 0)
    throw new Error(
      'every generation of the authority has expired: rotate it to get a CA bundle that holds one',
    );
  const bundle = toCertificatePem(roots);
  if (bundle.length > MAX_BUNDLE_BYTES)
    throw new Error(
      `the CA bundle is ${bundle.length} bytes long: at most ${MAX_BUNDLE_BYTES} are published`,
    );
  return bundle;
}

export function bundleRoots({ generations }: Authority, now: Date): readonly X509Certificate[] {
  const roots = generations
    .flatMap(rootsOf)
    .filter((root) => root.validToDate > now && root.checkIssued(root));
  return uniqueBy(roots, ({ fingerprint256 }) => fingerprint256);
}

/** Whether a client with this bundle trusts the root of `generation`. With an unreadable bundle it trusts nothing. */
export function trusts(bundle: string, generation: Generation): boolean {
  const { fingerprint256 } = rootOf(generation);
  return (readableCertificates(bundle) ?? []).some((root) => root.fingerprint256 === fingerprint256);
}

/** The public side of the authority, to check serving certs against. All Services share one object per change. */
export interface Signing {
  readonly generationId: string;
  readonly notBefore: Date;
  readonly notAfter: Date;
  readonly bridges: readonly CertificatePem[];
  readonly bundle: CertificatePem;
  /** When the first of these certificates expires: this object is then outdated. */
  readonly validUntil: Date;
}

export function signingOf(authority: Authority, now: Date): Signing {
  const active = activeGeneration(authority);
  const { notBefore, notAfter } = lifeOf(active);
  const bridges = bridgesFrom(authority, active.id, now);
  const parts = [...bundleRoots(authority, now), ...bridges.map(firstCertificate)];
  return {
    generationId: active.id,
    notBefore,
    notAfter,
    bridges,
    bundle: caBundle(authority, now),
    validUntil: earliest(...parts.map(({ validToDate }) => validToDate)),
  };
}

/** Targets of the CA bundle that lack a root, as display names. A rotation waits for them. */
export interface LaggingTargets {
  /** Cluster-scoped targets, and those of Gatehouse: a rotation waits for them until the old root is about to expire. */
  readonly vetoing: readonly string[];
  /** Targets that tenants create, or that another client keeps reverting: a rotation waits `MAX_DELAY` for them. */
  readonly delaying: readonly string[];
}

/** A kind of targets that Gatehouse cannot list or discover. */
export interface UnreadableKind {
  readonly kind: string;
  readonly canVeto: boolean;
  /** The answer of the API server, which names the missing permission. */
  readonly problem: string;
}

/** Counted from when a generation was created: injectors need minutes, and bridges keep clients with an old bundle working. */
const MAX_DELAY = 6 * HOUR;

export const delayEnd = ({ createdAt }: Pick<Generation, 'createdAt'>): Date => after(createdAt, MAX_DELAY);

export function waitsForTargets(
  lagging: LaggingTargets | undefined,
  generation: Pick<Generation, 'createdAt'>,
  now: Date,
): boolean {
  if (lagging === undefined || lagging.vetoing.length > 0) return true;
  return lagging.delaying.length > 0 && now < delayEnd(generation);
}

export const namesOf = (lagging: LaggingTargets | undefined): readonly string[] | undefined =>
  lagging && [...lagging.vetoing, ...lagging.delaying];
