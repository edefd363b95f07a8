import type { IncomingHttpHeaders } from 'node:http';
import { createHash, randomBytes } from 'node:crypto';
import { jsonIn } from '../../json/json.ts';

const COOKIE = 'gatehouse-status';

/** RFC 6750 */
export function bearerToken({ authorization = '' }: IncomingHttpHeaders): string | undefined {
  return /^bearer +(\S+)$/i.exec(authorization.trim())?.[1];
}

export function sessionId({ cookie = '' }: IncomingHttpHeaders): string | undefined {
  for (const part of cookie.split(';')) {
    const [name = '', value] = part.trim().split('=', 2);
    if (name === COOKIE) return value;
  }
  return undefined;
}

/** Strict: not sent by links on other sites. Secure: browsers accept HTTP to localhost, as `kubectl port-forward` uses. */
export const sessionCookie = (id: string, seconds: number): string =>
  `${COOKIE}=${id}; Path=/status; Max-Age=${seconds}; HttpOnly; Secure; SameSite=Strict`;

/** Prevents CSRF: whether this page sent the request. Browsers send Origin; clients without it lack a cookie to abuse. */
export function isOfSameOrigin(headers: IncomingHttpHeaders): boolean {
  const { origin, host = '' } = headers;
  const site = headers['sec-fetch-site'];
  if (site !== undefined) return site === 'same-origin';
  if (origin === undefined) return true;
  return URL.canParse(origin) && new URL(origin).host === host;
}

export const STATUS_AUDIENCE = 'gatehouse-status';

/** The token is not verified at this point: its content selects the question, not the answer. */
export function audienceOf(token: string): string | undefined {
  const [, payload = ''] = token.split('.');
  const claims = jsonIn(Buffer.from(payload, 'base64url').toString());
  if (typeof claims !== 'object' || claims === null || !('aud' in claims)) return undefined;
  return [claims.aud].flat().includes(STATUS_AUDIENCE) ? STATUS_AUDIENCE : undefined;
}

/** The lifetime after sign-in, in milliseconds: the default lifetime of tokens from `kubectl create token`. */
export const SESSION_MS = 3_600_000;
/** Limits memory, because tokens can be large. Above this limit, a new session removes the oldest one. */
export const MAX_SESSIONS = 100;

export function createSessions(now: () => number) {
  const sessions = new Map<string, { readonly token: string; readonly until: number }>();
  // Keyed by a hash, so that the lookup time reveals nothing about an id.
  const hashOf = (id: string): string => createHash('sha256').update(id).digest('base64');

  const evict = (): void => {
    for (const [key, { until }] of sessions)
      if (until <= now() || sessions.size >= MAX_SESSIONS) sessions.delete(key);
  };

  return {
    open: (token: string): string => {
      evict();
      const id = randomBytes(32).toString('base64url');
      sessions.set(hashOf(id), { token, until: now() + SESSION_MS });
      return id;
    },
    tokenOf: (id: string): string | undefined => {
      const session = sessions.get(hashOf(id));
      return session === undefined || session.until <= now() ? undefined : session.token;
    },
    close: (id: string): void => {
      sessions.delete(hashOf(id));
    },
  };
}
