/** Delays the passes over an object that keep changing the same: a time in a field, or another writer of the field. */
import { keyOf, type KubeObject } from '../json/kube-object.ts';
import { contentOf, fingerprint } from './owned-objects.ts';

/** After this many changes of the same in a row, passes are delayed. */
const FREE_PASSES = 10;
/** A pass that changes no object counts less: a rollout causes many, and each changes the status. */
const PASS = 10;
const QUIET_PASS = 1;
const excessOf = (weight: number): number => Math.max(0, Math.floor(weight / PASS) - FREE_PASSES);
const BASE_MS = 1_000;
const MAX_MS = 300_000;
/** A pass that starts later follows from a timer of the author, not from the pass before. In milliseconds. */
const NEXT_MS = 2_000;
/** Another client that takes a field back this often is reported, at any speed. In milliseconds. */
const FREE_FIGHTS = 4;
export const FIGHT_MS = 600_000;
/** Random names must not fill the memory. */
const MOST_NAMES = 1_000;

/** A change of one object by a pass. */
export interface Written {
  readonly fields: readonly string[];
  /** Who had changed these fields, if it was another client. */
  readonly by?: string | undefined;
}

interface Streak {
  readonly version: string;
  readonly written: ReadonlySet<string>;
  readonly weight: number;
  /** No pass changed what an earlier one had changed. */
  readonly isQuiet: boolean;
  /** When the next pass can start, and until when it belongs to these, in milliseconds. */
  readonly next: number;
  readonly end: number;
}

export interface Braked {
  readonly changed: readonly string[];
  /** Undefined: passes are not delayed. */
  readonly until: Date | undefined;
}

export type Brake = ReturnType<typeof createBrake>;

export function createBrake() {
  const streaks = new Map<string, Streak>();
  const fights = createFights();
  return {
    /** When this object can have its next pass, if not now. A change of its spec is not delayed. */
    heldUntil: (object: KubeObject, now: Date): Date | undefined => {
      const streak = streaks.get(keyOf(object));
      if (streak === undefined) return undefined;
      if (streak.version !== versionOf(object) || now.getTime() > streak.end) streaks.delete(keyOf(object));
      else if (now.getTime() < streak.next) return new Date(streak.next);
      return undefined;
    },
    /** Whether a pass over the object has changed this a short time ago. */
    isRepeated: (object: KubeObject, name: string, now: Date): boolean =>
      fights.isKnown(fightKey(object, name), now.getTime()),
    /** After a pass: what the passes keep changing, and when the next one can start. */
    passed: (object: KubeObject, changes: ReadonlyMap<string, Written>, now: Date): Braked | undefined => {
      const key = keyOf(object);
      const fought = [...changes].flatMap(([name, { by }]) =>
        fights.count(fightKey(object, name), by !== undefined, now.getTime()) > FREE_FIGHTS ? [name] : [],
      );
      const found = streaks.get(key);
      const before = found !== undefined && now.getTime() <= found.end ? found : undefined;
      const again = [...changes.keys()].filter((name) => before?.written.has(name));
      const wasDelayed = excessOf(before?.weight ?? 0) > 0;
      const isOver = changes.size === 0 && wasDelayed && before?.isQuiet === false;
      const isQuiet = again.length === 0 && before?.isQuiet !== false;
      const step = again.length > 0 ? PASS : isQuiet ? QUIET_PASS : 0;
      const weight = before === undefined ? PASS : before.weight + step;
      const excess = isOver ? 0 : excessOf(weight);
      const waitMs = excess > 0 ? Math.min(isQuiet ? BASE_MS : MAX_MS, BASE_MS * 2 ** (excess - 1)) : 0;
      const next = now.getTime() + waitMs;
      streaks.delete(key);
      for (const [old, { end }] of streaks) {
        if (end >= now.getTime()) break;
        streaks.delete(old);
      }
      const written = new Set([...(before?.written ?? []), ...changes.keys()].slice(-MOST_NAMES));
      const end = next + waitMs + NEXT_MS;
      const streak = { version: versionOf(object), written, weight, isQuiet, next, end };
      if (!isOver) streaks.set(key, streak);
      // Another pass that changes nothing is no news.
      if (excess > 0 && isQuiet && excess === excessOf(before?.weight ?? 0)) return undefined;
      if (excess > 0) return { changed: again, until: new Date(next) };
      return fought.length > 0 ? { changed: fought, until: undefined } : undefined;
    },
    forget: (key: string): void => {
      streaks.delete(key);
    },
    /** How many objects have delayed passes. */
    size: (): number => [...streaks.values()].filter(({ weight }) => excessOf(weight) > 0).length,
  };
}

/** How often another client took a field back. The oldest first. */
function createFights() {
  const known = new Map<string, { readonly count: number; readonly at: number }>();
  const isKnown = (key: string, now: number): boolean => now - (known.get(key)?.at ?? -Infinity) < FIGHT_MS;
  return {
    isKnown,
    count: (key: string, isOfOther: boolean, now: number): number => {
      const count = isKnown(key, now) && isOfOther ? (known.get(key)?.count ?? 0) + 1 : 0;
      known.delete(key);
      known.set(key, { count, at: now });
      for (const old of known.keys()) {
        if (isKnown(old, now)) break;
        known.delete(old);
      }
      return count;
    },
  };
}

const fightKey = (object: KubeObject, name: string): string =>
  `${keyOf(object)} ${object.metadata?.uid ?? ''} ${name}`;

/** Not the resourceVersion, which also changes with the status that a delayed pass writes. */
const versionOf = (object: KubeObject): string =>
  `${object.metadata?.uid ?? ''} ${object.metadata?.generation ?? fingerprint(contentOf(object))}`;
