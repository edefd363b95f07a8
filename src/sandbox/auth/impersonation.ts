import { badRequest } from '../../machinery/failure.ts';
import type { UserInfo } from '../../machinery/request.ts';
import {
  type RequestHeaders,
  accountGroups,
  accountOf,
  ANONYMOUS,
  AUTHENTICATED,
  UNAUTHENTICATED,
} from './authenticate.ts';
import { forbiddenFor, type Authorizer, type ResourceAttributes } from './rbac.ts';

const EXTRA_PREFIX = 'impersonate-extra-';
const AUTHENTICATION = 'authentication.k8s.io';

/** The user in the `Impersonate-…` headers; undefined without them (apiserver's endpoints/filters/impersonation). */
export function impersonate(
  user: UserInfo,
  headers: RequestHeaders,
  { authorize }: Pick<Authorizer, 'authorize'>,
): UserInfo | undefined {
  const wanted = wantedUser(headers);
  if (wanted === undefined) return undefined;
  for (const attributes of checksFor(wanted))
    if (!authorize(user, attributes)) throw forbiddenFor(user, attributes);
  return withImpliedGroups(wanted);
}

/** The user in the headers, without implied groups. */
function wantedUser(headers: RequestHeaders): UserInfo | undefined {
  const username = asUtf8(headers['impersonate-user']?.[0] ?? '');
  const uid = asUtf8(headers['impersonate-uid']?.[0] ?? '');
  const groups = (headers['impersonate-group'] ?? []).map(asUtf8);
  const extra = Object.entries(headers).flatMap(([name, values = []]) =>
    name.startsWith(EXTRA_PREFIX) ? [[extraKey(name), values.map(asUtf8)] as const] : [],
  );
  if (username !== '') {
    return {
      username,
      groups,
      ...(uid === '' ? {} : { uid }),
      ...(extra.length === 0 ? {} : { extra: Object.fromEntries(extra) }),
    };
  }
  if (uid === '' && groups.length === 0 && extra.length === 0) return undefined;
  throw badRequest('requested a uid, groups or extra fields without impersonating a user name');
}

/** Node decodes headers as Latin-1, the API server as UTF-8. */
const asUtf8 = (value: string): string => Buffer.from(value, 'latin1').toString('utf8');

/** Keys are percent-encoded, because header names do not allow every character. */
function extraKey(header: string): string {
  const key = header.slice(EXTRA_PREFIX.length).toLowerCase();
  try {
    return decodeURIComponent(key);
  } catch {
    return key; // not valid percent-encoding: use it unchanged, as the API server does
  }
}

function checksFor({ username, uid, groups, extra = {} }: UserInfo): readonly ResourceAttributes[] {
  const account = accountOf(username);
  return [
    account === undefined
      ? check({ resource: 'users', name: username })
      : check({ resource: 'serviceaccounts', ...account }),
    ...groups.map((name) => check({ resource: 'groups', name })),
    ...Object.entries(extra).flatMap(([subresource, values]) =>
      values.map((name) => check({ group: AUTHENTICATION, resource: 'userextras', subresource, name })),
    ),
    ...(uid === undefined ? [] : [check({ group: AUTHENTICATION, resource: 'uids', name: uid })]),
  ];
}

const check = (
  what: Partial<ResourceAttributes> & Pick<ResourceAttributes, 'resource' | 'name'>,
): ResourceAttributes => ({
  kind: 'resource',
  verb: 'impersonate',
  group: '',
  subresource: '',
  namespace: '',
  ...what,
});

/** Adds the groups of a ServiceAccount, and `system:authenticated` for other users where it is implied. */
function withImpliedGroups(user: UserInfo): UserInfo {
  const account = accountOf(user.username);
  const groups =
    user.groups.length === 0 && account !== undefined ? accountGroups(account.namespace) : user.groups;
  const implied = user.username === ANONYMOUS.username ? UNAUTHENTICATED : AUTHENTICATED;
  const decided = groups.includes(UNAUTHENTICATED) || groups.includes(implied);
  return { ...user, groups: decided ? groups : [...groups, implied] };
}
