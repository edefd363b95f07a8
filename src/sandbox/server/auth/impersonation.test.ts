import { expect, test } from 'vitest';

import { badRequest } from '../../machinery/failure.ts';
import type { UserInfo } from '../../machinery/request.ts';
import type { Attributes } from './attributes.ts';
import type { RequestHeaders } from './authenticate.ts';
import { impersonate } from './impersonation.ts';

const bob: UserInfo = { username: 'bob', groups: ['system:authenticated'] };

const LIST: Attributes = {
  kind: 'resource',
  verb: 'list',
  group: '',
  resource: 'pods',
  subresource: '',
  namespace: 'shop',
  name: '',
};

function asked(headers: RequestHeaders) {
  const checks: Attributes[] = [];
  const authorize = (_user: UserInfo, attributes: Attributes) => {
    checks.push(attributes);
    return { allowed: true, reason: '' };
  };
  const user = impersonate(bob, headers, { authorize }, LIST);
  return { user, checks };
}

const check = (more: Partial<Attributes>) => ({
  kind: 'resource',
  verb: 'impersonate',
  group: '',
  subresource: '',
  namespace: '',
  ...more,
});

test('without headers there is no impersonation and no permission check', () => {
  expect(asked({ accept: ['application/json'] })).toEqual({ user: undefined, checks: [] });
});

test('an impersonated user counts as authenticated', () => {
  expect(asked({ 'impersonate-user': ['alice'] })).toEqual({
    user: { username: 'alice', groups: ['system:authenticated'] },
    checks: [check({ resource: 'users', name: 'alice' })],
  });
});

test('each group, extra value and uid is checked separately', () => {
  const { user, checks } = asked({
    'impersonate-user': ['alice'],
    'impersonate-group': ['dev', 'ops'],
    'impersonate-extra-example.com%2fscopes': ['read', 'write'],
    'impersonate-uid': ['42'],
  });
  expect(user).toEqual({
    username: 'alice',
    uid: '42',
    groups: ['dev', 'ops', 'system:authenticated'],
    extra: { 'example.com/scopes': ['read', 'write'] },
  });
  const extra = {
    group: 'authentication.k8s.io',
    resource: 'userextras',
    subresource: 'example.com/scopes',
  };
  expect(checks).toEqual([
    check({ resource: 'users', name: 'alice' }),
    check({ resource: 'groups', name: 'dev' }),
    check({ resource: 'groups', name: 'ops' }),
    check({ ...extra, name: 'read' }),
    check({ ...extra, name: 'write' }),
    check({ group: 'authentication.k8s.io', resource: 'uids', name: '42' }),
  ]);
});

test('a ServiceAccount is checked in its namespace and gets its groups', () => {
  expect(asked({ 'impersonate-user': ['system:serviceaccount:shop:robot'] })).toEqual({
    user: {
      username: 'system:serviceaccount:shop:robot',
      groups: ['system:serviceaccounts', 'system:serviceaccounts:shop', 'system:authenticated'],
    },
    checks: [check({ resource: 'serviceaccounts', namespace: 'shop', name: 'robot' })],
  });
});

test('a ServiceAccount with explicit groups has only these, and counts as authenticated', () => {
  const headers = { 'impersonate-user': ['system:serviceaccount:shop:robot'], 'impersonate-group': ['dev'] };
  expect(asked(headers).user?.groups).toEqual(['dev', 'system:authenticated']);
});

test.each([
  ['the anonymous user', ['system:anonymous'], [], ['system:unauthenticated']],
  [
    'a user in the group of unauthenticated users',
    ['x'],
    ['system:unauthenticated'],
    ['system:unauthenticated'],
  ],
])('%s does not become authenticated', (_who, name, given, groups) => {
  expect(asked({ 'impersonate-user': name, 'impersonate-group': given }).user?.groups).toEqual(groups);
});

test('groups without a user are a 400', () => {
  expect(() => asked({ 'impersonate-group': ['system:masters'] })).toThrow(
    expect.objectContaining({
      status: badRequest('requested a uid, groups or extra fields without impersonating a user name').status,
    }),
  );
});

const ALICE: RequestHeaders = { 'impersonate-user': ['alice'], 'impersonate-group': ['system:masters'] };

test.each([
  [
    'the request',
    [],
    'pods is forbidden: User "bob" cannot impersonate-on:user-info:list resource "pods" in API group "" in the namespace "shop"',
  ],
  [
    'the group',
    ['impersonate-on:user-info:list pods', 'impersonate:user-info users'],
    'groups.authentication.k8s.io "system:masters" is forbidden: User "bob" cannot impersonate:user-info resource "groups" in API group "authentication.k8s.io" at the cluster scope',
  ],
])('an impersonation without permission is a 403 that names %s', (_what, allowed: string[], message) => {
  expect(() => impersonate(bob, ALICE, { authorize: only(allowed) }, LIST)).toThrow(message);
});

test('an impersonation may be limited to a verb', () => {
  const authorize = only([
    'impersonate-on:user-info:list pods',
    'impersonate:user-info users',
    'impersonate:user-info groups',
  ]);
  expect(impersonate(bob, ALICE, { authorize }, LIST)?.username).toBe('alice');
});

const only = (allowed: readonly string[]) => (_user: UserInfo, attributes: Attributes) => ({
  allowed: attributes.kind === 'resource' && allowed.includes(`${attributes.verb} ${attributes.resource}`),
  reason: '',
});

test('names are UTF-8 that arrives as Latin-1', () => {
  const bytes = Buffer.from('Zoë\u2028', 'utf8').toString('latin1');
  const { user } = asked({ 'impersonate-user': [bytes], 'impersonate-group': [bytes] });
  expect(user).toMatchObject({ username: 'Zoë\u2028', groups: ['Zoë\u2028', 'system:authenticated'] });
});
