/** Serving Secrets that another client keeps changing or deleting: Gatehouse repairs them with increasing delays. */
import {
  isContended,
  nextAttempt,
  settledAt,
  type Attempt,
  type RevertHistory,
} from '../../pki/revert-backoff.ts';

export type ContendedSecrets = ReturnType<typeof createContendedSecrets>;

export function createContendedSecrets() {
  /** By Service. */
  const histories = new Map<string, RevertHistory>();
  return {
    /** Whether to write now. Store the history of a wait at once, and that of a write once it has succeeded. */
    attempt: (key: string, wanted: string, now: Date): Attempt =>
      nextAttempt(histories.get(key), wanted, now),
    remember: (key: string, history: RevertHistory): void => void histories.set(key, history),
    /** The Secret is as it should be. Until when it still counts as contended; undefined: it does not. */
    contendedUntil: (key: string, now: Date): Date | undefined => {
      const history = histories.get(key);
      if (!isContended(history)) return undefined;
      const until = settledAt(history);
      if (now < until) return until;
      histories.delete(key);
      return undefined;
    },
    /** The Service no longer asks for a Secret. */
    forget: (key: string): void => void histories.delete(key),
    count: (): number => [...histories.values()].filter(isContended).length,
  };
}
