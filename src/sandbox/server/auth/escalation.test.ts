import { expect, test } from 'vitest';

import { withMeta } from '../../machinery/api-object.ts';
import { escalationProblem } from './escalation.ts';
import { createAuthorizer } from './rbac.ts';
import {
  bindingObject,
  createRbacStorage,
  roleObject,
  user,
  type Rule,
} from '../../../../test/support/sandbox/rbac-objects.ts';

const alice = { username: 'alice', groups: ['system:authenticated'] };
const getPods = { apiGroups: [''], resources: ['pods'], verbs: ['get'] };
const getSecrets = { apiGroups: [''], resources: ['secrets'], verbs: ['get'] };

/** Alice may get pods everywhere, and has the additional rules of the test. */
function start(...rules: readonly Rule[]) {
  const world = createRbacStorage();
  world.role('', 'alices', getPods, ...rules);
  world.bind('', 'alices', 'ClusterRole/alices', user('alice'));
  const authorizer = createAuthorizer(world.storage);
  return {
    ...world,
    problem: (object: Parameters<typeof escalationProblem>[2], old?: typeof object, who = alice) =>
      escalationProblem(authorizer, who, object, old),
  };
}

const REFUSAL =
  'user "alice" (groups=["system:authenticated"]) is attempting to grant RBAC permissions not currently held:\n' +
  '{APIGroups:[""], Resources:["secrets"], Verbs:["get"]}';

test('a role may grant permissions that its author has', () => {
  expect(start().problem(roleObject('shop', 'r', [getPods]))).toBeUndefined();
});

test.each(['shop', ''])('a role in %j may not grant more than its author has', (namespace) => {
  expect(start().problem(roleObject(namespace, 'r', [getPods, getSecrets]))).toBe(REFUSAL);
});

test('members of system:masters may grant anything', () => {
  const masters = { username: 'root', groups: ['system:masters'] };
  expect(start().problem(roleObject('', 'r', [getSecrets]), undefined, masters)).toBeUndefined();
});

test('a user who may escalate may write any role', () => {
  const { problem } = start({
    apiGroups: ['rbac.authorization.k8s.io'],
    resources: ['roles'],
    verbs: ['escalate'],
  });
  expect(problem(roleObject('shop', 'r', [getSecrets]))).toBeUndefined();
  expect(problem(roleObject('', 'r', [getSecrets])), 'a ClusterRole is another resource').toBe(REFUSAL);
});

test('an update is checked as a whole, unless it changes only owners or finalizers', () => {
  const old = roleObject('shop', 'r', [getSecrets]);
  const { problem } = start();
  expect(problem(withMeta(old, { labels: { a: 'b' } }), old)).toBe(REFUSAL);
  expect(problem(withMeta(old, { finalizers: ['example.com/hold'] }), old)).toBeUndefined();
});

test('a rule held in a namespace may be granted there', () => {
  const { role, bind, problem } = start();
  role('shop', 'secrets', getSecrets);
  bind('shop', 'secrets', 'Role/secrets', user('alice'));
  expect(problem(roleObject('shop', 'r', [getSecrets]))).toBeUndefined();
  expect(problem(roleObject('elsewhere', 'r', [getSecrets]))).toBe(REFUSAL);
});

test('only a user with all permissions may write aggregated roles', () => {
  const aggregating = roleObject('', 'r', [], { aggregationRule: { clusterRoleSelectors: [] } });
  expect(start().problem(aggregating)).toBe('must have cluster-admin privileges to use the aggregationRule');
  const everything = start(
    { apiGroups: ['*'], resources: ['*'], verbs: ['*'] },
    { nonResourceURLs: ['*'], verbs: ['*'] },
  );
  expect(everything.problem(aggregating)).toBeUndefined();
});

test('a binding may only grant a role whose permissions its author has', () => {
  const { role, problem } = start();
  role('', 'pods', getPods);
  role('shop', 'secrets', getSecrets);
  expect(problem(bindingObject('shop', 'b', 'ClusterRole/pods', [user('bob')]))).toBeUndefined();
  expect(problem(bindingObject('shop', 'b', 'Role/secrets', [user('bob')]))).toBe(REFUSAL);
});

test('a user who may bind a role may grant that role only', () => {
  const { role, problem } = start({
    apiGroups: ['rbac.authorization.k8s.io'],
    resources: ['clusterroles'],
    resourceNames: ['secrets'],
    verbs: ['bind'],
  });
  role('', 'secrets', getSecrets);
  role('', 'others', getSecrets);
  expect(problem(bindingObject('', 'b', 'ClusterRole/secrets', [user('bob')]))).toBeUndefined();
  expect(problem(bindingObject('', 'b', 'ClusterRole/others', [user('bob')]))).toBe(REFUSAL);
});

test('a binding to a missing role cannot be checked', () => {
  expect(() => start().problem(bindingObject('', 'b', 'ClusterRole/lost', []))).toThrow(
    'clusterroles.rbac.authorization.k8s.io "lost" not found',
  );
});

test("the error lists the missing roles of the author's bindings", () => {
  const { bind, problem } = start();
  bind('', 'lost', 'ClusterRole/lost', user('alice'));
  expect(problem(roleObject('shop', 'r', [getSecrets]))).toBe(
    `${REFUSAL}; resolution errors: [clusterroles.rbac.authorization.k8s.io "lost" not found]`,
  );
});
