import { type CertificatePem, firstCertificate, toCertificatePem } from '../x509/pem.ts';
import {
  createGeneration,
  formerRoots,
  intermediatesOf,
  isSameCa,
  rootOf,
  type Generation,
  type ImportedAuthority,
  type NewGeneration,
  UNUSED,
} from './generation.ts';
import { after, DAY, earliest, DEFAULT_SERVING_CERT_LIFETIME } from '../durations.ts';

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

const MAX_GONE = 16;

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
