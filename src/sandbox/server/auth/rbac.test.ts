import { expect, test } from 'vitest';

import { createAuthorizer } from './rbac.ts';
import {
  createRbacStorage,
  getPath,
  getSecret,
  group,
  user,
} from '../../../../test/support/sandbox/rbac-objects.ts';

const alice = { username: 'alice', groups: ['dev', 'system:authenticated'] };
const robot = { username: 'system:serviceaccount:shop:robot', groups: [] };
const readSecrets = { apiGroups: [''], resources: ['secrets'], verbs: ['get'] };

function start() {
  const world = createRbacStorage();
  const authorizer = createAuthorizer(world.storage);
  return { ...world, ...authorizer };
}

test('without a binding nothing is allowed', () => {
  expect(start().authorize(alice, getSecret)).toEqual({ allowed: false, reason: '' });
});

test('members of system:masters may do everything', () => {
  const masters = { username: 'root', groups: ['system:masters'] };
  expect(start().authorize(masters, getPath('/anything'))).toEqual({ allowed: true, reason: '' });
});

test.each([
  ['user', user('alice'), alice, 'User "alice"'],
  ['group', group('dev'), alice, 'Group "dev"'],
  [
    'ServiceAccount',
    { kind: 'ServiceAccount', name: 'robot', namespace: 'shop' },
    robot,
    'ServiceAccount "robot/shop"',
  ],
])('a ClusterRoleBinding grants its role to a %s in every namespace', (_kind, subject, who, shown) => {
  const { role, bind, authorize } = start();
  role('', 'reader', readSecrets);
  bind('', 'readers', 'ClusterRole/reader', subject);
  expect(authorize(who, getSecret)).toEqual({
    allowed: true,
    reason: `RBAC: allowed by ClusterRoleBinding "readers" of ClusterRole "reader" to ${shown}`,
  });
  expect(authorize(who, { ...getSecret, namespace: '' }).allowed).toBe(true);
});

test('a RoleBinding grants a role of its namespace there and nowhere else', () => {
  const { role, bind, authorize } = start();
  role('shop', 'reader', readSecrets);
  bind('shop', 'readers', 'Role/reader', user('alice'));
  expect(authorize(alice, getSecret)).toEqual({
    allowed: true,
    reason: 'RBAC: allowed by RoleBinding "readers/shop" of Role "reader" to User "alice"',
  });
  expect(authorize(alice, { ...getSecret, namespace: 'elsewhere' }).allowed).toBe(false);
  expect(authorize(alice, { ...getSecret, namespace: '' }).allowed).toBe(false);
});

test('a RoleBinding may grant a ClusterRole, for its namespace only', () => {
  const { role, bind, authorize } = start();
  role('', 'reader', readSecrets);
  bind('shop', 'readers', 'ClusterRole/reader', user('alice'));
  expect(authorize(alice, getSecret).allowed).toBe(true);
  expect(authorize(alice, { ...getSecret, namespace: 'elsewhere' }).allowed).toBe(false);
});

test('a ServiceAccount subject without a namespace is in the namespace of the binding', () => {
  const { role, bind, authorize } = start();
  role('', 'reader', readSecrets);
  bind('shop', 'readers', 'ClusterRole/reader', { kind: 'ServiceAccount', name: 'robot' });
  expect(authorize(robot, getSecret).allowed).toBe(true);
});

test('ClusterRoleBindings grant access to paths', () => {
  const { role, bind, authorize } = start();
  role('', 'monitoring', { nonResourceURLs: ['/metrics'], verbs: ['get'] });
  bind('', 'monitoring', 'ClusterRole/monitoring', group('dev'));
  expect(authorize(alice, getPath('/metrics')).allowed).toBe(true);
  expect(authorize(alice, getPath('/logs')).allowed).toBe(false);
});

test('the reason for a refusal lists bindings to missing roles', () => {
  const { bind, authorize } = start();
  bind('', 'a', 'ClusterRole/lost', user('alice'));
  expect(authorize(alice, getSecret).reason).toBe(
    'RBAC: clusterrole.rbac.authorization.k8s.io "lost" not found',
  );
  bind('shop', 'b', 'Role/gone', user('alice'));
  expect(authorize(alice, getSecret).reason).toBe(
    'RBAC: [clusterrole.rbac.authorization.k8s.io "lost" not found, role.rbac.authorization.k8s.io "gone" not found]',
  );
});

test('changes to roles and bindings take effect immediately', () => {
  const { role, bind, unbind, authorize } = start();
  const allowed = () => authorize(alice, getSecret).allowed;
  expect(allowed()).toBe(false);
  bind('shop', 'readers', 'ClusterRole/reader', user('alice'));
  expect(allowed()).toBe(false);
  role('', 'reader', readSecrets);
  expect(allowed()).toBe(true);
  unbind('shop', 'readers');
  expect(allowed()).toBe(false);
});

test('the rules of a user come from all bindings that apply to the namespace', () => {
  const { role, bind, rulesFor } = start();
  role('', 'reader', readSecrets);
  role('shop', 'writer', { ...readSecrets, verbs: ['update'] });
  bind('', 'readers', 'ClusterRole/reader', user('alice'));
  bind('shop', 'writers', 'Role/writer', group('dev'));
  bind('shop', 'others', 'Role/lost', group('dev'));
  expect(rulesFor(alice, '').rules.map(({ verbs }) => verbs)).toEqual([['get']]);
  const held = rulesFor(alice, 'shop');
  expect(held.rules.map(({ verbs }) => verbs)).toEqual([['get'], ['update']]);
  expect(held.missing).toEqual([{ kind: 'Role', name: 'lost' }]);
});
