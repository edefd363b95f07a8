/** Delays the passes over an object that keep changing the same: a time in a field, or another writer of the field. */
import { keyOf, type KubeObject } from '../json/kube-object.ts';
import { contentOf, fingerprint } from './owned-objects.ts';

/** After this many changes of the same in a row, passes are delayed. */
const FREE_PASSES = 10;
const BASE_MS = 1_000;
const MAX_MS = 300_000;
/** A pass that starts later follows from a timer of the author, not from the pass before. In milliseconds. */
const NEXT_MS = 2_000;

interface Streak {
  readonly version: string;
  readonly written: ReadonlySet<string>;
  readonly passes: number;
  /** When the next pass can start, and until when it belongs to these, in milliseconds. */
  readonly next: number;
  readonly end: number;
}

export type Brake = ReturnType<typeof createBrake>;

export function createBrake() {
  const streaks = new Map<string, Streak>();
  return {
    /** When this object can have its next pass, if not now. A change of its spec is not delayed. */
    heldUntil: (object: KubeObject, now: Date): Date | undefined => {
      const streak = streaks.get(keyOf(object));
      if (streak === undefined) return undefined;
      if (streak.version !== versionOf(object) || now.getTime() > streak.end) streaks.delete(keyOf(object));
      else if (now.getTime() < streak.next) return new Date(streak.next);
      return undefined;
    },
    /** After a pass: what the passes keep changing, and when the next one can start. */
    passed: (object: KubeObject, written: ReadonlySet<string>, now: Date) => {
      const key = keyOf(object);
      const before = streaks.get(key);
      // Its own write can cause one more pass, which writes nothing.
      if (written.size === 0 && (before?.passes ?? 0) <= FREE_PASSES) return undefined;
      const again = [...written].filter((name) => before?.written.has(name));
      const passes = before !== undefined && again.length > 0 ? before.passes + 1 : 1;
      const excess = passes - FREE_PASSES;
      const waitMs = excess > 0 ? Math.min(MAX_MS, BASE_MS * 2 ** (excess - 1)) : 0;
      const next = now.getTime() + waitMs;
      streaks.delete(key);
      for (const [old, { end }] of streaks) {
        if (end >= now.getTime()) break;
        streaks.delete(old);
      }
      const streak = { version: versionOf(object), written, passes, next, end: next + waitMs + NEXT_MS };
      if (written.size > 0) streaks.set(key, streak);
      return excess > 0 ? { changed: again, until: new Date(next) } : undefined;
    },
    forget: (key: string): void => {
      streaks.delete(key);
    },
    /** How many objects have delayed passes. */
    size: (): number => [...streaks.values()].filter(({ passes }) => passes > FREE_PASSES).length,
  };
}

/** Not the resourceVersion, which also changes with the status that a delayed pass writes. */
const versionOf = (object: KubeObject): string =>
  `${object.metadata?.uid ?? ''} ${object.metadata?.generation ?? fingerprint(contentOf(object))}`;
