/** The credentials of a status page request. */
import type { IncomingHttpHeaders } from 'node:http';

export const COOKIE = 'gatehouse-status';

/** RFC 6750. Undefined: the request has no bearer token. */
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

/**
 * HttpOnly: scripts cannot read the cookie. Strict: requests from links on other sites do not include it. Secure: sent
 * over HTTPS only; browsers also accept plain HTTP to localhost, which `kubectl port-forward` uses.
 */
export const sessionCookie = (id: string, seconds: number): string =>
  `${COOKIE}=${id}; Path=/status; Max-Age=${seconds}; HttpOnly; Secure; SameSite=Strict`;

/** Prevents CSRF: whether this page sent the request. Browsers send Origin; other clients have no cookie to abuse. */
export function isOfSameOrigin(headers: IncomingHttpHeaders): boolean {
  const { origin, host = '' } = headers;
  const site = headers['sec-fetch-site'];
  if (site !== undefined) return site === 'same-origin';
  if (origin === undefined) return true;
  return URL.canParse(origin) && new URL(origin).host === host;
}

/** The audience of tokens that give access to this page only. */
export const STATUS_AUDIENCE = 'gatehouse-status';

/**
 * The audience for the TokenReview of `token`: the status page if the token names it, otherwise the API server. The
 * token is not verified at this point: its content selects the question, not the answer.
 */
export function audienceOf(token: string): string | undefined {
  const [, payload = ''] = token.split('.');
  const claims = parsed(Buffer.from(payload, 'base64url').toString());
  if (typeof claims !== 'object' || claims === null || !('aud' in claims)) return undefined;
  return [claims.aud].flat().includes(STATUS_AUDIENCE) ? STATUS_AUDIENCE : undefined;
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
