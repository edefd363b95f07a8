/** Targets of the CA bundle that lack a root, and how long a rotation waits for them. */
import { after, HOUR } from '../durations.ts';
import type { Generation } from './generation.ts';

/** As display names. */
export interface LaggingTargets {
  /** Cluster-scoped targets, and those of Gatehouse: a rotation waits for them until the old root is about to expire. */
  readonly vetoing: readonly string[];
  /** Targets that tenants create, or that another client keeps reverting: a rotation waits `MAX_DELAY` for them. */
  readonly delaying: readonly string[];
}

/** A kind of targets that Gatehouse may not list, or cannot discover. */
export interface UnreadableKind {
  readonly kind: string;
  /** As `vetoing` and `delaying`. */
  readonly canVeto: boolean;
  /** The answer of the API server, which names the missing permission. */
  readonly problem: string;
}

/**
 * From the creation of a generation. The injectors need minutes for thousands of targets, and bridges keep clients with
 * an old bundle working.
 */
const MAX_DELAY = 6 * HOUR;

/** From then on, a rotation to this generation no longer waits for the `delaying` targets. */
export const delayEnd = ({ createdAt }: Pick<Generation, 'createdAt'>): Date => after(createdAt, MAX_DELAY);

/** Whether a step of this generation still waits for targets. An unknown state counts as waiting. */
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
