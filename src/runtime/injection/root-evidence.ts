/** Which targets of the CA bundle lack which roots. Updated per target, so that a question scans nothing. */
import type { LaggingTargets } from '../../pki/authority/lagging-targets.ts';

export interface TargetTrust {
  /** The SHA-256 fingerprints of the certificates that every entry of the target contains. */
  readonly roots: ReadonlySet<string>;
  /** Whether a rotation waits for this target until the old root is about to expire. */
  readonly canVeto: boolean;
}

type Names = Readonly<Record<keyof LaggingTargets, Set<string>>>;

/** One for each generation of the authority, and one for the generation before. */
const MAX_ROOTS = 4;

/** @param onChange a rotation that waits for targets may continue, or must wait again */
export function createRootEvidence(onChange: () => void) {
  const targets = new Map<string, TargetTrust>();
  const contended = new Set<string>();
  /** The lagging targets for the roots of the latest questions. */
  const lagging = new Map<string, Names>();

  /** Returns whether one of the two sets is empty now and was not before, or the other way round. */
  const place = (name: string, root: string, names: Names): boolean => {
    const trust = targets.get(name);
    const lacks = trust !== undefined && !trust.roots.has(root);
    const vetoes = trust?.canVeto === true && !contended.has(name);
    const before = [names.vetoing.size === 0, names.delaying.size === 0];
    toggle(names.vetoing, name, lacks && vetoes);
    toggle(names.delaying, name, lacks && !vetoes);
    return before[0] !== (names.vetoing.size === 0) || before[1] !== (names.delaying.size === 0);
  };
  const update = (name: string): void => {
    const changes = [...lagging].map(([root, names]) => place(name, root, names));
    if (changes.includes(true)) onChange();
  };
  const track = (root: string): Names => {
    const names: Names = { vetoing: new Set(), delaying: new Set() };
    for (const name of targets.keys()) place(name, root, names);
    return names;
  };

  return {
    /** Undefined: the object is no target, or gone. */
    set: (name: string, trust: TargetTrust | undefined): void => {
      if (trust === undefined) targets.delete(name);
      else targets.set(name, trust);
      update(name);
    },
    /** A target that another client keeps reverting has no veto: otherwise that client could prevent rotations. */
    contend: (name: string, isContended: boolean): void => {
      if (contended.has(name) === isContended) return;
      toggle(contended, name, isContended);
      update(name);
    },
    /** @param root the SHA-256 fingerprint of its certificate */
    without: (root: string): LaggingTargets => {
      const names = lagging.get(root) ?? track(root);
      lagging.delete(root);
      lagging.set(root, names);
      const [oldest] = lagging.keys();
      if (lagging.size > MAX_ROOTS && oldest !== undefined) lagging.delete(oldest);
      return { vetoing: [...names.vetoing], delaying: [...names.delaying] };
    },
  };
}

function toggle(set: Set<string>, name: string, isIn: boolean): void {
  if (isIn) set.add(name);
  else set.delete(name);
}
