import { unauthorized } from '../../machinery/failure.ts';
import type { UserInfo } from '../../machinery/request.ts';

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

export const AUTHENTICATED = 'system:authenticated';
export const UNAUTHENTICATED = 'system:unauthenticated';
/** Members may do everything, whatever RBAC says. */
export const MASTERS = 'system:masters';

const ANONYMOUS_NAME = 'system:anonymous';

/** Who asks without a token. */
export const ANONYMOUS: UserInfo = { username: ANONYMOUS_NAME, groups: [UNAUTHENTICATED] };

export const isAnonymous = ({ username }: Pick<UserInfo, 'username'>) => username === ANONYMOUS_NAME;

export interface AccountName {
  readonly namespace: string;
  readonly name: string;
}

export const accountUsername = ({ namespace, name }: AccountName) =>
  `system:serviceaccount:${namespace}:${name}`;

/** Of every ServiceAccount in the namespace, beside `system:authenticated`. */
export const accountGroups = (namespace: string): readonly string[] => [
  'system:serviceaccounts',
  `system:serviceaccounts:${namespace}`,
];

/** The ServiceAccount whose username this is; undefined when it is none's. */
export function accountOf(username: string): AccountName | undefined {
  const [, namespace, name] = /^system:serviceaccount:([^:]+):([^:]+)$/.exec(username) ?? [];
  return namespace === undefined || name === undefined ? undefined : { namespace, name };
}

/** The user with the group that everyone who has proven to be someone is in. */
export function authenticated(user: UserInfo): UserInfo {
  return user.groups.includes(AUTHENTICATED) ? user : { ...user, groups: [...user.groups, AUTHENTICATED] };
}
