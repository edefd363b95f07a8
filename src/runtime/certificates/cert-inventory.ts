/** All serving certs in the store, as evidence for rotations and for metrics. */
import { keyOf } from '../../json/kube-object.ts';
import type { Authority } from '../../pki/authority/authority.ts';
import type { LaggingTargets } from '../../pki/authority/bundle.ts';
import { rootOf } from '../../pki/authority/generation.ts';
import {
  signerOf,
  type ServingCertFacts,
  type ServingCertSummary,
  type StoredSecret,
} from '../../pki/serving-certs/facts.ts';
import type { ServingCertStores } from './serving-cert-stores.ts';

/** Why a serving cert is no longer renewed. */
type StoppedReason = 'NotRequested' | 'ServiceGone' | 'InvalidRequest' | 'SecretTaken';

export type CertInventory = ReturnType<typeof createCertInventory>;

type Summary = Extract<ServingCertSummary, { kind: 'usable' }>;

export function createCertInventory(
  {
    secrets,
    secret,
    claimants,
    synced,
  }: Pick<ServingCertStores, 'secrets' | 'secret' | 'claimants' | 'synced'>,
  authority: () => Authority | undefined,
) {
  const signers = createSigners();
  /** Why the cert in a Secret (`namespace/name`) is no longer renewed. */
  const reasons = new Map<string, StoppedReason>();
  return {
    /** The cert is no longer renewed. Returns whether the reason is new. */
    stopped: (key: string, reason: StoppedReason): boolean => {
      const changed = reasons.get(key) !== reason;
      reasons.set(key, reason);
      return changed;
    },
    /** The cert is renewed again, or gone. */
    renewed: (key: string): void => {
      reasons.delete(key);
    },
    /** How many are no longer renewed, by reason. */
    stoppedByReason: (): ReadonlyMap<StoppedReason, number> => {
      const counts = new Map<StoppedReason, number>();
      for (const [key, reason] of reasons) {
        if (secret(key) === undefined) reasons.delete(key);
        else counts.set(reason, (counts.get(reason) ?? 0) + 1);
      }
      return counts;
    },
    /** The content of a stored Secret, compared with the current authority; undefined: no cert and no key. */
    factsOf: ({ summary }: StoredSecret, current: Authority): ServingCertFacts | undefined => {
      if (summary?.kind !== 'usable') return summary;
      return { ...summary, signedBy: signers.of(summary, current) };
    },
    /**
     * Display names of the renewed Secrets whose `ca.crt` lacks the root of this generation: clients may mount it.
     * Undefined: not known yet.
     */
    secretsWithout: (id: string): readonly string[] | undefined => {
      const generation = authority()?.generations.find((one) => one.id === id);
      if (generation === undefined || !synced()) return undefined;
      const root = rootOf(generation).fingerprint256;
      return secrets().flatMap((one) => {
        const { summary } = one;
        if (summary?.kind !== 'usable' || summary.bundle?.split(',').includes(root) === true) return [];
        const key = keyOf(one);
        return reasons.has(key) || claimants(key).length === 0 ? [] : [`Secret ${key}`];
      });
    },
    /** All certs whose signature was checked so far, expired or not. */
    all: () => {
      const current = authority();
      return current === undefined || !synced() ? [] : readCerts(secrets(), current, signers);
    },
  };
}

/** `generation`: the id of the generation that signed it; undefined: no known generation did. */
interface ReadCert {
  readonly notAfter: Date;
  readonly generation: string | undefined;
}

/** Stops when the budget is used up; the next call gets further. Reconciles look up signers too. */
function readCerts(
  secrets: readonly StoredSecret[],
  current: Authority,
  signers: ReturnType<typeof createSigners>,
): readonly ReadCert[] {
  const certs: ReadCert[] = [];
  let budget = SIGNATURES_AT_ONCE;
  for (const { summary } of secrets) {
    if (summary?.kind !== 'usable') continue;
    if (!signers.knows(summary, current) && budget-- <= 0) continue;
    certs.push({ notAfter: summary.notAfter, generation: signers.of(summary, current) });
  }
  return certs;
}

/** A rotation waits for serving Secrets as long as for other targets of tenants. */
export const withSecrets = (
  targets: LaggingTargets | undefined,
  secrets: readonly string[] | undefined,
): LaggingTargets | undefined =>
  targets && secrets && { ...targets, delaying: [...targets.delaying, ...secrets] };

/** Each signature check blocks the event loop for 0.2 ms. */
const SIGNATURES_AT_ONCE = 500;

/** Memoises the signers: every scrape of the metrics needs thousands of them. */
function createSigners() {
  const known = new WeakMap<Summary, { readonly authority: Authority; readonly id: string | undefined }>();
  // A known signer never changes. An unknown signer may be a generation of a later authority.
  const lookUp = (summary: Summary, authority: Authority) => {
    const before = known.get(summary);
    return before !== undefined && (before.id !== undefined || before.authority === authority)
      ? before
      : undefined;
  };
  return {
    knows: (summary: Summary, authority: Authority): boolean => lookUp(summary, authority) !== undefined,
    of: (summary: Summary, authority: Authority): string | undefined => {
      const found = lookUp(summary, authority) ?? { authority, id: signerOf(summary.leaf, authority) };
      known.set(summary, found);
      return found.id;
    },
  };
}
