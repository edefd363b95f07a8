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
  /** By Service, the one with the oldest write first. A Service that is created again keeps its history. */
  const histories = new Map<string, RevertHistory>();
  return {
    /** Whether to write now. Store the history of a wait at once, and that of a write once it has succeeded. */
    attempt: (key: string, wanted: string, now: Date): Attempt =>
      nextAttempt(histories.get(key), wanted, now),
    remember: (key: string, history: RevertHistory, now: Date): void => {
      histories.delete(key);
      histories.set(key, history);
      for (const [oldest, settled] of histories) {
        if (now < settledAt(settled)) break;
        histories.delete(oldest);
      }
    },
    /** The Secret is as it should be. Until when it still counts as contended; undefined: it does not. */
    contendedUntil: (key: string, now: Date): Date | undefined => {
      const history = histories.get(key);
      if (!isContended(history)) return undefined;
      const until = settledAt(history);
      if (now < until) return until;
      histories.delete(key);
      return undefined;
    },
    count: (): number => [...histories.values()].filter(isContended).length,
  };
}
