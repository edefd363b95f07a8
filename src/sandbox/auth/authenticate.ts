import { unauthorized } from '../../machinery/failure.ts';
import type { UserInfo } from '../../machinery/request.ts';

/** Header values by lower-case name, as in Node's `headersDistinct`. */
export type RequestHeaders = Readonly<Record<string, readonly string[] | undefined>>;

/** The user of a token; undefined if the token is unknown or has expired. */
export type FindUser = (token: string) => UserInfo | undefined;

/** Looks up fixed tokens first, then ServiceAccount tokens. Every user found is in `system:authenticated`. */
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
 * Authenticates a request. Schemes other than Bearer are ignored, as in an API server without an authenticator for
 * them.
 *
 * @throws ApiFailure 401 if the token is not valid
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

export const AUTHENTICATED = 'system:authenticated';
export const UNAUTHENTICATED = 'system:unauthenticated';
/** Members may do everything, regardless of RBAC. */
export const MASTERS = 'system:masters';

const ANONYMOUS_NAME = 'system:anonymous';

/** The user of a request without a token. */
export const ANONYMOUS: UserInfo = { username: ANONYMOUS_NAME, groups: [UNAUTHENTICATED] };

export const isAnonymous = ({ username }: Pick<UserInfo, 'username'>) => username === ANONYMOUS_NAME;

export interface AccountName {
  readonly namespace: string;
  readonly name: string;
}

export const accountUsername = ({ namespace, name }: AccountName) =>
  `system:serviceaccount:${namespace}:${name}`;

/** The groups of every ServiceAccount in the namespace, in addition to `system:authenticated`. */
export const accountGroups = (namespace: string): readonly string[] => [
  'system:serviceaccounts',
  `system:serviceaccounts:${namespace}`,
];

/** The ServiceAccount with this username; undefined if it is not one. */
export function accountOf(username: string): AccountName | undefined {
  const [, namespace, name] = /^system:serviceaccount:([^:]+):([^:]+)$/.exec(username) ?? [];
  return namespace === undefined || name === undefined ? undefined : { namespace, name };
}

/** Adds the group of all authenticated users. */
export function authenticated(user: UserInfo): UserInfo {
  return user.groups.includes(AUTHENTICATED) ? user : { ...user, groups: [...user.groups, AUTHENTICATED] };
}
