/** What a browser keeps in the place of a token: a number that says nothing, and is worth nothing after an hour. */
import { createHash, randomBytes } from 'node:crypto';

export interface Sessions {
  /** Remembers `token`. Gives the id of the new session. */
  readonly open: (token: string) => string;
  readonly tokenOf: (id: string) => string | undefined;
  readonly close: (id: string) => void;
}

/** In milliseconds, from signing in: as long as a token lives that `kubectl create token` makes. */
export const SESSION_MS = 3_600_000;
/** Tokens can be large; who signs in when there are more costs the oldest its session. */
export const MOST_SESSIONS = 100;

/** In memory: a replica that restarts has forgotten them. @param now milliseconds that never go back */
export function createSessions(now: () => number): Sessions {
  const sessions = new Map<string, { readonly token: string; readonly until: number }>();
  // Found by a hash: how long the search takes says nothing about an id.
  const keyOf = (id: string): string => createHash('sha256').update(id).digest('base64');

  const forgetSome = (): void => {
    for (const [key, { until }] of sessions)
      if (until <= now() || sessions.size >= MOST_SESSIONS) sessions.delete(key);
  };

  return {
    open: (token) => {
      forgetSome();
      const id = randomBytes(32).toString('base64url');
      sessions.set(keyOf(id), { token, until: now() + SESSION_MS });
      return id;
    },
    tokenOf: (id) => {
      const session = sessions.get(keyOf(id));
      return session === undefined || session.until <= now() ? undefined : session.token;
    },
    close: (id) => {
      sessions.delete(keyOf(id));
    },
  };
}
