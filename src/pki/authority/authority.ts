import type { X509Certificate } from 'node:crypto';

import {
  type CertificatePem,
  firstCertificate,
  readableCertificates,
  toCertificatePem,
} from '../x509/pem.ts';
import {
  createGeneration,
  formerRoots,
  type Generation,
  type ImportedAuthority,
  intermediatesOf,
  isSameCa,
  lifeOf,
  type NewGeneration,
  rootOf,
  rootsOf,
  UNUSED,
} from './generation.ts';
import { after, DAY, DEFAULT_SERVING_CERT_LIFETIME, earliest, HOUR } from '../durations.ts';
import { uniqueBy } from '../../json/json.ts';

/** Our signing CA: all trusted generations, newest first. Exactly one is active. Pending ones come before it. */
export interface Authority {
  readonly generations: readonly Generation[];
  /** Ids of removed generations, newest first. A published root that is unknown here shows that this is an older copy. */
  readonly gone?: readonly string[];
  /** The latest value of the annotation `rotate` that started a rotation. */
  readonly rotatedFor?: string;
}

/** Its generation is active immediately, because no clients exist yet that must first learn of its root. */
export async function createAuthority(request: Omit<NewGeneration, 'previous'>): Promise<Authority> {
  return authorityOf(await createGeneration(request), request.now);
}

export function authorityOf(first: Generation, now: Date): Authority {
  const active = { ...first, state: 'active', publishedAt: now, activatedAt: now } as const;
  return recordTrust({ generations: [active] }, [active.id], after(now, DEFAULT_SERVING_CERT_LIFETIME + DAY));
}

/** Records that these generations may sign certs until `until`, but never longer than their root lasts. */
export const recordTrust = (authority: Authority, ids: readonly string[], until: Date): Authority =>
  change(authority, (generation) => {
    const { trustedUntil } = generation;
    const end = earliest(until, rootOf(generation).validToDate);
    const isLonger = trustedUntil === undefined || end > trustedUntil;
    return ids.includes(generation.id) && isLonger ? { ...generation, trustedUntil: end } : generation;
  });

/** @throws Error if none is active, which {@link parseAuthority} and {@link createAuthority} rule out. */
export function activeGeneration({ generations }: Authority): Generation {
  const active = generations.find(({ state }) => state === 'active');
  if (active === undefined) throw new Error('no generation of the authority is active');
  return active;
}

export const pendingGeneration = ({ generations }: Authority): Generation | undefined =>
  generations.find(({ state }) => state === 'pending');

/** Java follows at most five intermediate certificates by default (PKIXBuilderParameters, maxPathLength). */
export const MAX_BRIDGES = 5;

/**
 * What servers send after a leaf of generation `id`: clients that know only an older root follow these certificates to it.
 * The list ends before a missing or expired certificate, because some verifiers reject chains with an expired one.
 */
export function bridgesFrom({ generations }: Authority, id: string, now: Date): readonly CertificatePem[] {
  const signer = generations.findIndex((generation) => generation.id === id);
  const signing = generations[signer];
  if (signing === undefined) return [];
  const chain = [...intermediatesOf(signing)];
  for (const [index, previous] of generations.entries()) {
    const newer = generations[index - 1];
    if (newer === undefined || index <= signer || isSameCa(rootOf(newer), rootOf(previous))) continue;
    if (newer.bridge === undefined) break;
    const link = [firstCertificate(newer.bridge), ...intermediatesOf(previous)];
    const isExpired = link.some(({ validToDate }) => validToDate <= now);
    if (isExpired || chain.length + link.length > MAX_BRIDGES) break;
    chain.push(...link);
  }
  return chain.map((certificate) => toCertificatePem([certificate]));
}

export const MAX_GONE = 16;

export const prepare = (
  authority: Authority,
  pending: Generation,
  rotatedFor: string | undefined,
): Authority => ({
  ...authority,
  generations: [pending, ...authority.generations],
  ...(rotatedFor === undefined ? {} : { rotatedFor }),
});

export const publish = (authority: Authority, id: string, now: Date): Authority =>
  change(authority, (generation) =>
    generation.id === id ? { ...generation, publishedAt: now } : generation,
  );

/** The key of the previous generation is destroyed: it has signed the bridge. Both have the same record of trust. */
export function activate(authority: Authority, id: string, now: Date): Authority {
  const { trustedUntil = now } = activeGeneration(authority);
  const next = change(authority, (generation) =>
    generation.id === id
      ? { ...generation, state: 'active', publishedAt: generation.publishedAt ?? now, activatedAt: now }
      : retired(generation),
  );
  return recordTrust(next, [id], trustedUntil);
}

const retired = (generation: Generation): Generation => ({
  ...generation,
  state: 'retiring',
  key: undefined,
});

export function remove(authority: Authority, ids: readonly string[]): Authority {
  const { generations, gone = [] } = authority;
  return {
    ...authority,
    generations: generations.flatMap((generation, index) => {
      if (ids.includes(generation.id)) return [];
      const previous = generations[index + 1]?.id;
      return [
        previous !== undefined && ids.includes(previous) ? { ...generation, bridge: undefined } : generation,
      ];
    }),
    gone: [...ids, ...gone.filter((id) => !ids.includes(id))].slice(0, MAX_GONE),
  };
}

/** `fresh` signs immediately. No bridge connects it to the old generations. */
export function replaceActive(
  authority: Authority,
  ids: readonly string[],
  fresh: Generation,
  now: Date,
): Authority {
  const rest = remove(authority, ids);
  const { generations } = authorityOf({ ...fresh, bridge: undefined }, now);
  return { ...rest, generations: [...generations, ...rest.generations.map(retired)] };
}

/** Clients that hold only an earlier root accept all certs of the key until that root ends, so such a root stays. */
export const renewRoot = (
  authority: Authority,
  { id, certificate, chain }: Omit<ImportedAuthority, 'key'>,
  now: Date,
): Authority =>
  change(authority, (generation) => {
    if (generation.id !== id) return generation;
    const renewed = { ...generation, certificate, chain };
    const former = formerRoots(generation, rootOf(renewed), now);
    return { ...renewed, formerRoots: former.length === 0 ? undefined : toCertificatePem(former) };
  });

/** Also each older generation whose root leads to `id`, and with an active one the pending one: one Secret has both keys. */
export function distrustedWith({ generations }: Authority, id: string): readonly string[] {
  const named = generations.findIndex((generation) => generation.id === id);
  if (named === -1) return [];
  const isStoredWithKey = generations[named]?.state !== 'retiring';
  const keyless = generations.findIndex(({ state }) => state === 'retiring');
  const from = isStoredWithKey ? 0 : named;
  const last = isStoredWithKey ? (keyless === -1 ? generations.length : keyless) - 1 : named;
  const end = generations.findIndex((older, index) => {
    const newer = generations[index - 1];
    return index > last && newer !== undefined && !isLinked(newer, older);
  });
  return generations.slice(from, end === -1 ? undefined : end).map((generation) => generation.id);
}

/** Whether clients that know only the root of the older generation accept the newer one. */
export const isLinked = (newer: Generation, older: Generation): boolean =>
  newer.bridge !== undefined || isSameCa(rootOf(newer), rootOf(older));

export function keylessGeneration(id: string, certificate: CertificatePem, now: Date): Generation {
  const createdAt = earliest(firstCertificate(certificate).validFromDate, now);
  return { ...UNUSED, id, state: 'retiring', certificate, createdAt };
}

const change = (authority: Authority, step: (generation: Generation) => Generation): Authority => ({
  ...authority,
  generations: authority.generations.map(step),
});

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
