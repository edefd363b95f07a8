/** Sessions: the browser stores a random id instead of the token. The id expires after an hour. */
import { createHash, randomBytes } from 'node:crypto';

/** The lifetime after sign-in, in milliseconds: the default lifetime of tokens from `kubectl create token`. */
export const SESSION_MS = 3_600_000;
/** Limits memory, because tokens can be large. Above this limit, a new session removes the oldest one. */
export const MAX_SESSIONS = 100;

/** Keeps sessions in memory: a restart ends them. `now`: a monotonic clock, in milliseconds. */
export function createSessions(now: () => number) {
  const sessions = new Map<string, { readonly token: string; readonly until: number }>();
  // Keyed by a hash, so that the lookup time reveals nothing about an id.
  const keyOf = (id: string): string => createHash('sha256').update(id).digest('base64');

  const evict = (): void => {
    for (const [key, { until }] of sessions)
      if (until <= now() || sessions.size >= MAX_SESSIONS) sessions.delete(key);
  };

  return {
    /** Stores `token` and returns the id of the new session. */
    open: (token: string): string => {
      evict();
      const id = randomBytes(32).toString('base64url');
      sessions.set(keyOf(id), { token, until: now() + SESSION_MS });
      return id;
    },
    tokenOf: (id: string): string | undefined => {
      const session = sessions.get(keyOf(id));
      return session === undefined || session.until <= now() ? undefined : session.token;
    },
    close: (id: string): void => {
      sessions.delete(keyOf(id));
    },
  };
}
