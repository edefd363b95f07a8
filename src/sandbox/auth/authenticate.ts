import { unauthorized } from '../../machinery/failure.ts';
import type { UserInfo } from '../../machinery/request.ts';
import type { Key } from '../../machinery/storage/stored.ts';

/** Header values by lower-case name, as in Node's `headersDistinct`. */
export type RequestHeaders = Readonly<Record<string, readonly string[] | undefined>>;

/** The user of a token; undefined if the token is unknown or has expired. */
export type FindUser = (token: string) => UserInfo | undefined;

/** Ignores schemes other than Bearer, like an API server without an authenticator for them. */
export function authenticate(headers: RequestHeaders, findUser: FindUser): UserInfo {
  const [scheme = '', token = ''] = (headers.authorization?.[0] ?? '').trim().split(' ');
  if (scheme.toLowerCase() !== 'bearer' || token === '') return ANONYMOUS;
  const user = findUser(token);
  if (user === undefined) throw unauthorized();
  return user;
}

export const AUTHENTICATED = 'system:authenticated';
export const UNAUTHENTICATED = 'system:unauthenticated';
/** Members may do everything, regardless of RBAC. */
export const MASTERS = 'system:masters';

export const ANONYMOUS: UserInfo = { username: 'system:anonymous', groups: [UNAUTHENTICATED] };

/** Tokens have the API server as their only audience. */
export const AUDIENCE = 'https://kubernetes.default.svc';

export const accountUsername = ({ namespace, name }: Key) => `system:serviceaccount:${namespace}:${name}`;

/** The groups of every ServiceAccount in the namespace, in addition to `system:authenticated`. */
export const accountGroups = (namespace: string): readonly string[] => [
  'system:serviceaccounts',
  `system:serviceaccounts:${namespace}`,
];

export function accountOf(username: string): Key | undefined {
  const [, namespace, name] = /^system:serviceaccount:([^:]+):([^:]+)$/.exec(username) ?? [];
  return namespace === undefined || name === undefined ? undefined : { namespace, name };
}

/** The API server puts the ID of the token here, so that audit logs can distinguish tokens of one account. */
const CREDENTIAL_ID = 'authentication.kubernetes.io/credential-id';

/** The fixed tokens of users, and tokens for ServiceAccounts. */
export function createTokens(
  users: ReadonlyMap<string, UserInfo>,
  now: () => Date,
  random: () => string,
  uidOf: (namespace: string, name: string) => string | undefined,
) {
  const tokens = new Map<string, { readonly user: UserInfo; readonly isValid: () => boolean }>();
  return {
    /** A token valid for this many seconds, as long as the account with this uid exists. */
    issue: (namespace: string, name: string, uid: string, seconds: number) => {
      for (const [token, { isValid }] of tokens) if (!isValid()) tokens.delete(token);
      const token = random();
      const expiresAt = now().getTime() + seconds * 1_000;
      // The account may be replaced by another one with the same name.
      const isValid = () => now().getTime() < expiresAt && uidOf(namespace, name) === uid;
      const extra = { [CREDENTIAL_ID]: [`JTI=${random()}`] };
      const username = accountUsername({ namespace, name });
      tokens.set(token, { user: { username, uid, groups: accountGroups(namespace), extra }, isValid });
      return token;
    },
    /** Every user found is in `system:authenticated`. */
    findUser: (token: string) => {
      const issued = tokens.get(token);
      const user = users.get(token) ?? (issued?.isValid() === true ? issued.user : undefined);
      if (user === undefined || user.groups.includes(AUTHENTICATED)) return user;
      return { ...user, groups: [...user.groups, AUTHENTICATED] };
    },
  };
}
