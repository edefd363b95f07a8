import type { CertificatePem } from './pem.ts';
import { firstCertificate } from './pem.ts';
import { createGeneration, type Generation, type NewGeneration } from './generation.ts';

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
