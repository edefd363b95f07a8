import { unauthorized } from '../failure.ts';
import type { UserInfo } from '../request.ts';
import { ANONYMOUS, authenticated } from './users.ts';

/** Lower-case name → every value that was sent: Node's `headersDistinct`. */
export type RequestHeaders = Readonly<Record<string, readonly string[] | undefined>>;

/** Whose token this is; undefined when it is nobody's, or has expired. */
export type FindUser = (token: string) => UserInfo | undefined;

/** Users with fixed tokens first, then those of ServiceAccounts. Everyone found is in `system:authenticated`. */
export function createUserLookup({
  tokens,
  issued,
}: {
  readonly tokens: () => ReadonlyMap<string, UserInfo>;
  readonly issued: FindUser;
}): FindUser {
  return (token) => {
    const user = tokens().get(token) ?? issued(token);
    return user === undefined ? undefined : authenticated(user);
  };
}

/**
 * Who sent a request. Other schemes than Bearer are not looked at, as by an API server that has no authenticator for them.
 *
 * @throws ApiFailure 401 for a token that is nobody's
 */
export function createAuthenticator(findUser: FindUser): (headers: RequestHeaders) => UserInfo {
  return (headers) => {
    const [scheme = '', token = ''] = (headers.authorization?.[0] ?? '').trim().split(' ');
    if (scheme.toLowerCase() !== 'bearer' || token === '') return ANONYMOUS;
    const user = findUser(token);
    if (user === undefined) throw unauthorized();
    return user;
  };
}
