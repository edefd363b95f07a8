import { abortError, type Clock } from '../clock.ts';

/**
 * Keeps what can wait from falling upon an API server that has just come back. When it goes away every watch breaks in the same
 * moment, and with it go the lease and what controllers were about to do; each tries again by itself, and a replica that follows
 * a hundred kinds would come back with hundreds of requests at once, as would each of the other clients of that API server.
 */
export interface Recovery {
  /**
   * The API server gave no answer, or broke off one that was not over.
   * @param since when a request was sent that nobody answered, by `Clock.monotonic`: not a word if others have been answered
   * meanwhile, for then it is slow and not away
   */
  readonly interrupted: (since?: number) => void;
  /** Watches are over before their time, as when one API server of several shuts down: all clients of it come back at once. */
  readonly dismissed: () => void;
  /** It answered, whatever it said. */
  readonly answered: () => void;
  /**
   * Resolves when a request that can wait may be sent: at once, except after an interruption. Call what it gives when the request
   * has been answered or has failed.
   * @throws the reason of `signal` on abort
   */
  readonly turn: (signal: AbortSignal) => Promise<() => void>;
  /** Whether it has been silent for longer than a moment: what somebody waits for had better be asked of another replica. */
  readonly isAway: () => boolean;
  /** The same for who is about to send a request: now and then one may, to see whether that is still so. */
  readonly mayAsk: () => boolean;
  /** Told once, as soon as it is away. Returns how to end that. */
  readonly onceAway: (listener: () => void) => () => void;
}

/**
 * 40 turns a second: with the lease and what admission reads live, which never wait, a replica stays below 50 requests. A
 * hundred watches are back within ten seconds, though each may need a probe, a refused watch, a list and a watch.
 */
export const TURN_MS = 25;
/** In milliseconds: longer than the longest wait of a reflector for an API server that is away, so that the last is paced too. */
export const PACED_MS = 15_000;
/** A connection that breaks is an everyday thing, and the next one is up before this is over. In milliseconds. */
export const AWAY_MS = 1_000;

const NOTHING = (): void => undefined;

export function createRecovery(clock: Pick<Clock, 'monotonic' | 'after'>): Recovery {
  /** First come, first served. */
  const waiting = new Set<() => void>();
  const listeners = new Set<() => void>();
  let pacedUntil = -Infinity;
  let reachable = true;
  let silentSince = -Infinity;
  let answeredAt = -Infinity;
  let askedAt = -Infinity;
  /** Turns that were given and have not ended. */
  let taken = 0;
  let nextAt = -Infinity;
  let isArmed = false;

  const pump = (): void => {
    const [first] = waiting;
    if (isArmed || first === undefined) return;
    // One asks on behalf of all: what queues up before a dead address would reach the API server in one moment.
    if (!reachable && taken > 0) return;
    const now = clock.monotonic();
    if (nextAt > now) {
      isArmed = true;
      clock.after(nextAt - now, () => {
        isArmed = false;
        pump();
      });
      return;
    }
    nextAt = now + TURN_MS;
    waiting.delete(first);
    taken += 1;
    first();
    pump();
  };

  const takeTurn = (): (() => void) => {
    let isOver = false;
    return () => {
      if (isOver) return;
      isOver = true;
      taken -= 1;
      pump();
    };
  };

  const isAway = (): boolean => !reachable && clock.monotonic() - silentSince >= AWAY_MS;

  return {
    interrupted: (since = Infinity) => {
      if (answeredAt >= since) return;
      const now = clock.monotonic();
      if (reachable) silentSince = Math.min(since, now);
      reachable = false;
      pacedUntil = now + PACED_MS;
      if (!isAway()) return;
      for (const listener of listeners) listener();
      listeners.clear();
    },
    dismissed: () => {
      pacedUntil = clock.monotonic() + PACED_MS;
    },
    answered: () => {
      answeredAt = clock.monotonic();
      if (reachable) return;
      reachable = true;
      pacedUntil = clock.monotonic() + PACED_MS;
      pump();
    },
    isAway,
    onceAway: (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    mayAsk: () => {
      if (!isAway()) return true;
      const now = clock.monotonic();
      if (now - askedAt < AWAY_MS) return false;
      askedAt = now;
      return true;
    },
    turn: (signal) => {
      // Also while others still wait: who comes often would never be out of the queue again.
      if (clock.monotonic() >= pacedUntil) return Promise.resolve(NOTHING);
      return new Promise((resolve, reject) => {
        if (signal.aborted) {
          reject(abortError(signal));
          return;
        }
        const onAbort = (): void => {
          waiting.delete(go);
          reject(abortError(signal));
        };
        const go = (): void => {
          signal.removeEventListener('abort', onAbort);
          resolve(takeTurn());
        };
        signal.addEventListener('abort', onAbort, { once: true });
        waiting.add(go);
        pump();
      });
    },
  };
}
