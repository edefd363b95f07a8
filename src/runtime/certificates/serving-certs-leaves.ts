/** What the store shows of all serving certs together: evidence for a rotation, and numbers for people. */
import type { Authority } from '../../pki/authority/authority.ts';
import {
  type StoredSecret,
  signerOf,
  type ServingCertFacts,
  type ServingCertSketch,
  type UsableServingCert,
} from '../../pki/serving-certs/facts.ts';

/** Why a serving cert is not renewed any more. */
export type StoppedReason = 'NotRequested' | 'ServiceGone' | 'InvalidRequest' | 'SecretTaken';

export interface Leaf {
  readonly notAfter: Date;
  /** The id of the generation that signed it; undefined: none that we know. */
  readonly generation: string | undefined;
}

export interface Leaves {
  /** What a stored Secret holds, seen by the authority of today; undefined: nothing. */
  readonly factsOf: (secret: StoredSecret, authority: Authority) => ServingCertFacts | undefined;
  /** How many certs that have not ended this generation signed; undefined: not known yet. */
  readonly leavesOf: (generation: string) => number | undefined;
  /** All certs whose signer is known by now, ended or not. */
  readonly all: () => readonly Leaf[];
  /** The cert in this Secret (`namespace/name`) is not renewed any more. Whether that is news. */
  readonly stopped: (secretKey: string, reason: StoppedReason) => boolean;
  /** It is renewed again, or gone. */
  readonly renewed: (secretKey: string) => void;
  /** How many Secrets hold a cert that is not renewed, by reason. */
  readonly stoppedByReason: () => ReadonlyMap<StoppedReason, number>;
}

export interface LeavesDeps {
  readonly secrets: () => readonly StoredSecret[];
  readonly secret: (key: string) => StoredSecret | undefined;
  readonly synced: () => boolean;
  readonly authority: () => Authority | undefined;
  readonly now: () => Date;
}

type Sketch = Extract<ServingCertSketch, { kind: 'usable' }>;

export function createLeaves({ secrets, secret, synced, authority, now }: LeavesDeps): Leaves {
  const signers = createSigners();
  const stopped = new Map<string, StoppedReason>();

  /** As far as the budget goes: whoever asks again gets further. Reconciles look at each of them too. */
  const look = (): { readonly leaves: readonly Leaf[]; readonly complete: boolean } => {
    const today = authority();
    if (today === undefined || !synced()) return { leaves: [], complete: false };
    const leaves: Leaf[] = [];
    let budget = SIGNATURES_AT_ONCE;
    for (const { sketch } of secrets()) {
      if (sketch?.kind !== 'usable') continue;
      if (!signers.knows(sketch, today) && budget-- <= 0) continue;
      leaves.push({ notAfter: sketch.notAfter, generation: signers.of(sketch, today) });
    }
    return { leaves, complete: budget >= 0 };
  };

  return {
    factsOf: ({ sketch }, today) => {
      if (sketch?.kind !== 'usable') return sketch;
      return { ...sketch, signedBy: signers.of(sketch, today) } satisfies UsableServingCert;
    },
    leavesOf: (generation) => {
      const { leaves, complete } = look();
      const today = now();
      return complete
        ? leaves.filter((leaf) => leaf.generation === generation && leaf.notAfter > today).length
        : undefined;
    },
    all: () => look().leaves,
    stopped: (key, reason) => {
      const news = stopped.get(key) !== reason;
      stopped.set(key, reason);
      return news;
    },
    renewed: (key) => {
      stopped.delete(key);
    },
    stoppedByReason: () => {
      const counts = new Map<StoppedReason, number>();
      for (const [key, reason] of stopped) {
        if (secret(key) === undefined) stopped.delete(key);
        else counts.set(reason, (counts.get(reason) ?? 0) + 1);
      }
      return counts;
    },
  };
}

/** Checking one takes a fifth of a millisecond, in which nobody else is served. */
const SIGNATURES_AT_ONCE = 500;

interface Signers {
  readonly of: (sketch: Sketch, authority: Authority) => string | undefined;
  readonly knows: (sketch: Sketch, authority: Authority) => boolean;
}

/** The same thousands of signers are asked for with every scrape. */
function createSigners(): Signers {
  const known = new WeakMap<Sketch, { readonly authority: Authority; readonly id: string | undefined }>();
  // Who signed does not change; who did not sign may be one of tomorrow's generations.
  const lookUp = (sketch: Sketch, authority: Authority) => {
    const before = known.get(sketch);
    return before !== undefined && (before.id !== undefined || before.authority === authority)
      ? before
      : undefined;
  };
  return {
    knows: (sketch, authority) => lookUp(sketch, authority) !== undefined,
    of: (sketch, authority) => {
      const found = lookUp(sketch, authority) ?? { authority, id: signerOf(sketch.leaf, authority) };
      known.set(sketch, found);
      return found.id;
    },
  };
}
