import type { UserInfo } from '../request.ts';

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
