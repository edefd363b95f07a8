import { type CertificatePem, firstCertificate } from '../x509/pem.ts';
import { createGeneration, type Generation, type NewGeneration, rootOf } from './generation.ts';

/** Our signing CA: every generation that is trusted, newest first. Exactly one is active; pending ones stand before it. */
export interface Authority {
  readonly generations: readonly Generation[];
  /**
   * Ids of generations that are gone, the latest first. A root that is still published somewhere and stands here is old news;
   * one that stands nowhere shows that this authority is the older copy.
   */
  readonly gone?: readonly string[];
  /** The latest value of the annotation `rotate` that a rotation was begun for. */
  readonly rotatedFor?: string;
}

/** The first authority. Its generation is active at once: nobody trusts anything yet who would have to learn of it first. */
export function createAuthority(request: Omit<NewGeneration, 'previous'>): Authority {
  return authorityOf(createGeneration(request), request.now);
}

/** The first authority, of a generation that is there already. */
export function authorityOf(first: Generation, now: Date): Authority {
  return { generations: [{ ...first, state: 'active', publishedAt: now, activatedAt: now }] };
}

/** @throws Error if none is active, which {@link parseAuthority} and {@link createAuthority} rule out. */
export function activeGeneration({ generations }: Authority): Generation {
  const active = generations.find(({ state }) => state === 'active');
  if (active === undefined) throw new Error('the authority has no active generation');
  return active;
}

/**
 * The bridges that a cert of generation `id` is served with, down to the oldest generation that is still retained: a client
 * that knows only an older root walks from bridge to bridge. The walk ends at a bridge that is missing or has ended, because
 * some verifiers refuse a chain for one expired certificate even where they do not need it.
 */
export function bridgesFrom({ generations }: Authority, id: string, now: Date): readonly CertificatePem[] {
  const signer = generations.findIndex((generation) => generation.id === id);
  const bridges: CertificatePem[] = [];
  // The oldest one's bridge leads to a root that is gone: nobody should be led there.
  for (const { bridge } of generations.slice(signer, -1)) {
    if (bridge === undefined || firstCertificate(bridge).validToDate <= now) break;
    bridges.push(bridge);
  }
  return bridges;
}

/** How many removed generations are remembered. A copy of the authority that is older than so many rotations is rare. */
const MAX_GONE = 16;

/** With a new generation in front: trusted from now on, signs nothing yet. */
export function prepare(
  authority: Authority,
  pending: Generation,
  rotatedFor: string | undefined,
): Authority {
  return {
    ...authority,
    generations: [pending, ...authority.generations],
    ...(rotatedFor === undefined ? {} : { rotatedFor }),
  };
}

/** The root of the pending generation is everywhere since `now`. */
export const publish = (authority: Authority, id: string, now: Date): Authority =>
  change(authority, (generation) =>
    generation.id === id ? { ...generation, publishedAt: now } : generation,
  );

/** The pending generation signs from now on. The key of the one before is destroyed: all it had left to sign was the bridge. */
export const activate = (authority: Authority, id: string, now: Date): Authority =>
  change(authority, (generation) =>
    generation.id === id
      ? {
          ...generation,
          state: 'active',
          publishedAt: generation.publishedAt ?? now,
          activatedAt: now,
        }
      : { ...generation, state: 'retiring', key: undefined },
  );

export interface DrainedNote {
  readonly drained: readonly string[];
  readonly live: readonly string[];
}

/** Remembers since when no serving cert of a generation is left, or that there is one again. */
export const noteDrained = (authority: Authority, { drained, live }: DrainedNote, now: Date): Authority =>
  change(authority, (generation) => {
    if (drained.includes(generation.id)) return { ...generation, drainedAt: now };
    return live.includes(generation.id) ? { ...generation, drainedAt: undefined } : generation;
  });

/** Without these generations. A bridge from one of them leads nowhere now, so it goes too. */
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

/** Without these generations, and with another one in front that signs at once: nothing leads from the old ones to it. */
export function replaceActive(
  authority: Authority,
  ids: readonly string[],
  fresh: Generation,
  now: Date,
): Authority {
  const rest = remove(authority, ids);
  const active: Generation = {
    ...fresh,
    state: 'active',
    bridge: undefined,
    publishedAt: now,
    activatedAt: now,
  };
  return {
    ...rest,
    generations: [
      active,
      ...rest.generations.map((one): Generation => ({ ...one, state: 'retiring', key: undefined })),
    ],
  };
}

/** Another root for the key of the generation `id`. */
export const renewRoot = (authority: Authority, id: string, certificate: CertificatePem): Authority =>
  change(authority, (generation) => (generation.id === id ? { ...generation, certificate } : generation));

/**
 * What goes when the generation `id` is not to be trusted: itself; each older one that leads to it by bridges, for whoever trusts
 * those trusts it; and if it signs or is about to, the generation that was made beside it, for their keys were stored together.
 */
export function distrustedWith({ generations }: Authority, id: string): readonly string[] {
  const named = generations.findIndex((generation) => generation.id === id);
  if (named === -1) return [];
  const isStoredWithKey = generations[named]?.state !== 'retiring';
  const keyless = generations.findIndex(({ state }) => state === 'retiring');
  const from = isStoredWithKey ? 0 : named;
  let last = isStoredWithKey ? (keyless === -1 ? generations.length : keyless) - 1 : named;
  while (generations[last]?.bridge !== undefined && last + 1 < generations.length) last++;
  return generations.slice(from, last + 1).map((generation) => generation.id);
}

/** A root that is trusted for the sake of the certs below it, though its key is lost. */
export function keylessGeneration(id: string, certificate: CertificatePem, now: Date): Generation {
  const generation = {
    id,
    state: 'retiring',
    certificate,
    key: undefined,
    bridge: undefined,
    publishedAt: undefined,
    activatedAt: undefined,
  } as const;
  return {
    ...generation,
    createdAt: earliestOf(rootOf({ ...generation, createdAt: now }).validFromDate, now),
  };
}

const earliestOf = (a: Date, b: Date): Date => (a < b ? a : b);

const change = (authority: Authority, step: (generation: Generation) => Generation): Authority => ({
  ...authority,
  generations: authority.generations.map(step),
});
