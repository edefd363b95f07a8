import type { ObjectRef } from '../../../json/kube-object.ts';
import { memoizeAsync } from '../../../json/memoize-async.ts';
import type { UnresolvedReference } from './check-references.ts';
import { targetKey } from '../object-ref.ts';
import type { World } from '../world.ts';

/** Concurrent live reads for one request. */
const AT_ONCE = 16;
/** Once this many targets are known to be missing, the others are not read: an object can name thousands. */
const ENOUGH_MISSING = 16;

/** The results of live reads for references whose target is not in the store. */
export interface ConfirmedTargets {
  /** The target does not exist. */
  readonly missing: readonly UnresolvedReference[];
  /** The live read failed. */
  readonly unknown: readonly UnresolvedReference[];
  /** Not read, because enough other targets are missing or a read failed. */
  readonly unread: readonly UnresolvedReference[];
  /** Why a live read failed, for the log. */
  readonly cause: unknown;
}

type Answer = { readonly kind: 'found' | 'missing' } | { readonly kind: 'unknown'; readonly cause: unknown };

/**
 * Reads targets from the API server: each target once per request, regardless of how many fields and policies name it.
 */
export type ConfirmTargets = (references: readonly UnresolvedReference[]) => Promise<ConfirmedTargets>;

export function createTargetConfirmer(
  { confirm }: Pick<World, 'confirm'>,
  signal: AbortSignal,
): ConfirmTargets {
  const answers = memoizeAsync(
    (target: ObjectRef) => answerOf(() => confirm(target, signal)),
    (target) => targetKey(target),
  );

  return async (references) => {
    const missing: UnresolvedReference[] = [];
    const unknown: UnresolvedReference[] = [];
    let cause: unknown;
    const byTarget = [...Map.groupBy(references, ({ target }) => targetKey(target)).values()];
    let read = 0;
    while (read < byTarget.length && missing.length < ENOUGH_MISSING && unknown.length === 0) {
      const batch = byTarget.slice(read, read + AT_ONCE);
      read += batch.length;
      await Promise.all(
        batch.map(async (same) => {
          const [first] = same;
          const answer = first === undefined ? undefined : await answers.read(first.target);
          if (answer?.kind === 'missing') missing.push(...same);
          if (answer?.kind === 'unknown') {
            unknown.push(...same);
            cause = answer.cause;
          }
        }),
      );
    }
    return { missing: inOrder(missing, references), unknown, unread: byTarget.slice(read).flat(), cause };
  };
}

async function answerOf(read: () => Promise<unknown>): Promise<Answer> {
  try {
    return { kind: (await read()) === undefined ? 'missing' : 'found' };
  } catch (cause) {
    return { kind: 'unknown', cause };
  }
}

/** Reads finish in any order; messages keep the order of the policies and fields. */
function inOrder(
  some: readonly UnresolvedReference[],
  all: readonly UnresolvedReference[],
): readonly UnresolvedReference[] {
  const wanted = new Set(some);
  return all.filter((reference) => wanted.has(reference));
}
