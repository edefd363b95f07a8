import type { Circumstances, RestoreEvidence, RestoreQuestion } from '../world.ts';

/** Whether a user is restoring a backup. */
export type Restore =
  | { readonly kind: 'none' }
  | ({ readonly kind: 'restoring' } & RestoreEvidence)
  | { readonly kind: 'unknown'; readonly cause: unknown };

/** Asks for the user of the request: once at most, and only when something depends on it. */
export type RestoreLookup = () => Promise<Restore>;

/** What the stores know without asking. */
export function knownRestore(
  request: RestoreQuestion,
  { knownRestore: find }: Circumstances['world'],
): Restore {
  const evidence = find?.(request);
  return evidence === undefined ? { kind: 'none' } : { kind: 'restoring', ...evidence };
}

export function createRestoreLookup(
  request: RestoreQuestion,
  { world, signal }: Pick<Circumstances, 'world' | 'signal'>,
): RestoreLookup {
  let asked: Promise<Restore> | undefined;
  const ask = async (): Promise<Restore> => {
    try {
      const evidence = await world.restoreEvidence(request, signal);
      return evidence === undefined ? { kind: 'none' } : { kind: 'restoring', ...evidence };
    } catch (cause) {
      return { kind: 'unknown', cause };
    }
  };
  return () => (asked ??= ask());
}
