/** UniqueClaims in memory, for the admission tests. */
import type { UniqueClaim } from '../../../src/api/unique-claim.ts';
import type { ClaimStore } from '../../../src/admission/policy/world.ts';
import { createUnsettledClaims } from '../../../src/runtime/claims/unsettled-claims.ts';

export const SETTLE_MS = 70_000;

export type ClaimsInMemory = ReturnType<typeof createClaimsInMemory>;

type Verb = 'read' | 'create' | 'replace' | 'remove';

/** @param send carries a call to the API server: it may delay it, or fail */
export function claimsOf(
  stored: Map<string, UniqueClaim>,
  send: (verb: Verb, name: string) => Promise<void>,
  nextVersion: () => string,
): ClaimStore {
  const put = (claim: UniqueClaim): UniqueClaim => {
    const next = { ...claim, metadata: { ...claim.metadata, resourceVersion: nextVersion() } };
    stored.set(claim.metadata.name ?? '', next);
    return next;
  };
  const isCurrent = ({ metadata: { name = '', resourceVersion } }: UniqueClaim) =>
    stored.get(name)?.metadata.resourceVersion === resourceVersion;
  return {
    settleMs: SETTLE_MS,
    read: async (name) => {
      await send('read', name);
      return stored.get(name);
    },
    create: async (claim) => {
      const { name = '' } = claim.metadata;
      await send('create', name);
      return stored.has(name) ? 'taken' : put(claim);
    },
    replace: async (claim) => {
      await send('replace', claim.metadata.name ?? '');
      return isCurrent(claim) ? put(claim) : 'changed';
    },
    remove: async (claim) => {
      const { name = '' } = claim.metadata;
      await send('remove', name);
      if (!isCurrent(claim)) return 'changed';
      stored.delete(name);
      return 'removed';
    },
  };
}

export function createClaimsInMemory(monotonic = () => 0) {
  const limits = { perUser: 8, total: 100, perNamespace: 8 };
  const unsettled = createUnsettledClaims(SETTLE_MS, monotonic, () => undefined, limits);
  const missingNamespaces = new Set<string>();
  const stored = new Map<string, UniqueClaim>();
  const asked: string[] = [];
  const hooks = new Map<Verb, (name: string) => void>();
  let version = 0;
  const ask = async (verb: Verb, name: string): Promise<void> => {
    await Promise.resolve(); // as a real call would yield
    asked.push(`${verb} ${name}`);
    hooks.get(verb)?.(name);
  };
  return {
    ...claimsOf(stored, ask, () => String(++version)),
    stored,
    unsettled,
    missingNamespaces,
    reserve: unsettled.reserve,
    hasNamespace: (name: string) => Promise.resolve(!missingNamespaces.has(name)),
    asked,
    before: (verb: Verb, run: (name: string) => void) => hooks.set(verb, run),
  };
}
