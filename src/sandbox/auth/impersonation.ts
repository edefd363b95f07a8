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
import { forbiddenFor, type Attributes, type Authorizer, type ResourceAttributes } from './rbac.ts';

const EXTRA_PREFIX = 'impersonate-extra-';
const AUTHENTICATION = 'authentication.k8s.io';

/** The user in the `Impersonate-…` headers; undefined without them (apiserver's endpoints/filters/impersonation). */
export function impersonate(
  user: UserInfo,
  headers: RequestHeaders,
  { authorize }: Pick<Authorizer, 'authorize'>,
  requested: Attributes,
): UserInfo | undefined {
  const wanted = wantedUser(headers);
  if (wanted === undefined) return undefined;
  const checks = checksFor(wanted);
  if (checks.some((attributes) => !authorize(user, attributes).allowed)) {
    for (const attributes of constrained(checks, wanted, requested)) {
      const { allowed, reason } = authorize(user, attributes);
      if (!allowed) throw forbiddenFor(user, attributes, reason);
    }
  }
  return withImpliedGroups(wanted);
}

/** From 1.36, a permission may be limited to certain requests of the impersonated user. */
function constrained(
  checks: readonly ResourceAttributes[],
  { username }: UserInfo,
  requested: Attributes,
): readonly Attributes[] {
  const mode = accountOf(username) === undefined ? 'user-info' : 'serviceaccount';
  return [
    { ...requested, verb: `impersonate-on:${mode}:${requested.verb}` },
    ...checks.map((attributes) => ({ ...attributes, verb: `impersonate:${mode}`, group: AUTHENTICATION })),
  ];
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
