/** What a request brings with it. */
import type { IncomingHttpHeaders } from 'node:http';

export const COOKIE = 'gatehouse-status';

/** RFC 6750. Undefined: there is none. */
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
 * HttpOnly: no script sees it. Strict: no other site's link brings it along. Secure: over HTTPS alone, for which browsers take
 * plain HTTP to this machine, too; that is how `kubectl port-forward` is reached.
 */
export const sessionCookie = (id: string, seconds: number): string =>
  `${COOKIE}=${id}; Path=/status; Max-Age=${seconds}; HttpOnly; Secure; SameSite=Strict`;

/** Whether a form of this page can have sent it: browsers tell where a request comes from, other clients have no sessions to ride. */
export function isOfSameOrigin(headers: IncomingHttpHeaders): boolean {
  const { origin, host = '' } = headers;
  const site = headers['sec-fetch-site'];
  if (site !== undefined) return site === 'same-origin';
  if (origin === undefined) return true;
  return URL.canParse(origin) && new URL(origin).host === host;
}

/** Whom tokens are made for that open this page, and nothing else. */
export const STATUS_AUDIENCE = 'gatehouse-status';

/**
 * Whom the API server is to be asked about as the audience of `token`: us, where the token itself says so, else the API server.
 * What an unverified token says decides no more than the question.
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
