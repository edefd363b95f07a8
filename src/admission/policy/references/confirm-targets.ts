import { memoizeAsync } from '../../../json/memoize-async.ts';
import type { ObjectRef } from '../../../json/kube-object.ts';
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
export function createTargetConfirmer({ confirm }: Pick<World, 'confirm'>, signal: AbortSignal) {
  const answers = memoizeAsync(
    (target: ObjectRef): Promise<Answer> =>
      confirm(target, signal).then(
        (found) => ({ kind: found === undefined ? 'missing' : 'found' }),
        (cause: unknown) => ({ kind: 'unknown', cause }),
      ),
    targetKey,
  );

  return async (references: readonly UnresolvedReference[]): Promise<ConfirmedTargets> => {
    const missing = new Set<UnresolvedReference>();
    const unknown: UnresolvedReference[] = [];
    let cause: unknown;
    const byTarget = [...Map.groupBy(references, ({ target }) => targetKey(target)).values()];
    let read = 0;
    while (read < byTarget.length && missing.size < ENOUGH_MISSING && unknown.length === 0) {
      const batch = byTarget.slice(read, read + AT_ONCE);
      read += batch.length;
      await Promise.all(
        batch.map(async (same) => {
          const [first] = same;
          const answer = first === undefined ? undefined : await answers.read(first.target);
          if (answer?.kind === 'missing') for (const one of same) missing.add(one);
          if (answer?.kind === 'unknown') {
            unknown.push(...same);
            cause = answer.cause;
          }
        }),
      );
    }
    // Reads finish in any order; messages keep the order of the policies and fields.
    const ordered = references.filter((reference) => missing.has(reference));
    return { missing: ordered, unknown, unread: byTarget.slice(read).flat(), cause };
  };
}
