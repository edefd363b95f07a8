import { expect, test } from 'vitest';

import type { JsonObject } from '../../../json/json.ts';
import { ofJson } from '../../machinery/api-object.ts';
import { createReviews } from './access-reviews.ts';
import { createAuthorizer } from './rbac.ts';
import { createRbacStorage, user } from '../../../../test/support/sandbox/rbac-objects.ts';

const alice = { username: 'alice', groups: ['dev'] };

function start() {
  const { storage, role, bind } = createRbacStorage();
  role('', 'reader', { apiGroups: [''], resources: ['secrets'], verbs: ['get'] });
  role('', 'monitoring', { nonResourceURLs: ['/metrics'], verbs: ['get'] });
  bind('shop', 'readers', 'ClusterRole/reader', user('alice'));
  bind('', 'monitoring', 'ClusterRole/monitoring', user('alice'));
  return createReviews(createAuthorizer(storage), (token) => (token === 'alices' ? alice : undefined));
}

const review = (kind: string, spec: JsonObject, metadata: JsonObject = {}) =>
  ofJson({ apiVersion: 'v1', kind, metadata, spec });
const getSecrets = { namespace: 'shop', verb: 'get', resource: 'secrets' };
const stranger = { username: 'stranger', groups: [] };
const ALLOWED = {
  allowed: true,
  reason: 'RBAC: allowed by RoleBinding "readers/shop" of ClusterRole "reader" to User "alice"',
};

test('users can ask about their own permissions', () => {
  const { SelfSubjectAccessReview: ask } = start();
  const question = review('SelfSubjectAccessReview', { resourceAttributes: getSecrets });
  expect(ask(question, alice)).toEqual({ ...question, status: ALLOWED });
  expect(ask(question, stranger).status).toEqual({ allowed: false });
  const path = { nonResourceAttributes: { verb: 'get', path: '/metrics' } };
  expect(ask(review('SelfSubjectAccessReview', path), alice).status).toMatchObject({ allowed: true });
});

test('users can ask about other users', () => {
  const { SubjectAccessReview: ask } = start();
  const spec = { resourceAttributes: getSecrets, user: 'alice' };
  expect(ask(review('SubjectAccessReview', spec)).status).toEqual(ALLOWED);
  expect(ask(review('SubjectAccessReview', { ...spec, user: '', groups: ['dev'] })).status).toEqual({
    allowed: false,
  });
});

test('users can ask about other users within a namespace, and only there', () => {
  const { LocalSubjectAccessReview: ask } = start();
  const spec = { resourceAttributes: getSecrets, user: 'alice' };
  expect(ask(review('LocalSubjectAccessReview', spec, { namespace: 'shop' })).status).toEqual(ALLOWED);
  expect(() => ask(review('LocalSubjectAccessReview', spec, { namespace: 'elsewhere' }))).toThrow(
    'spec.resourceAttributes.namespace: Invalid value: "shop": must match metadata.namespace',
  );
});

test.each([
  ['nothing', {}, 'exactly one of nonResourceAttributes or resourceAttributes must be specified'],
  [
    'two things',
    { resourceAttributes: getSecrets, nonResourceAttributes: { path: '/', verb: 'get' } },
    'exactly one of nonResourceAttributes or resourceAttributes must be specified',
  ],
])('a review that asks about %s is rejected', (_what, spec, why) => {
  const { SelfSubjectAccessReview: ask } = start();
  expect(() => ask(review('SelfSubjectAccessReview', spec), alice)).toThrow(why);
});

test('a review has no metadata, but a client may send empty metadata', () => {
  const { SelfSubjectAccessReview: ask } = start();
  const spec = { resourceAttributes: getSecrets };
  expect(() => ask(review('SelfSubjectAccessReview', spec, { name: 'mine' }), alice)).toThrow(
    'metadata: Invalid value: {"name":"mine"}: must be empty',
  );
  const empty = review('SelfSubjectAccessReview', spec, { creationTimestamp: null });
  expect(ask(empty, alice).status).toEqual(ALLOWED);
});

test('a review without a user or group is rejected', () => {
  const { SubjectAccessReview: ask } = start();
  expect(() => ask(review('SubjectAccessReview', { resourceAttributes: getSecrets }))).toThrow(
    '.authorization.k8s.io "" is invalid: spec.user: Invalid value: "": at least one of user or group must be specified',
  );
});

test('users can list all their rules in a namespace', () => {
  const { SelfSubjectRulesReview: ask } = start();
  expect(ask(review('SelfSubjectRulesReview', { namespace: 'shop' }), alice).status).toEqual({
    resourceRules: [{ verbs: ['get'], apiGroups: [''], resources: ['secrets'] }],
    nonResourceRules: [{ verbs: ['get'], nonResourceURLs: ['/metrics'] }],
    incomplete: false,
  });
  expect(() => ask(review('SelfSubjectRulesReview', {}), alice)).toThrow('no namespace on request');
});

test('users can ask who they are', () => {
  const { SelfSubjectReview: ask } = start();
  const extra = { scopes: ['a'] };
  expect(ask(review('SelfSubjectReview', {}), { ...alice, uid: '1', extra }).status).toEqual({
    userInfo: { username: 'alice', uid: '1', groups: ['dev'], extra },
  });
});

test('a TokenReview returns the user of a token', () => {
  const { TokenReview: ask } = start();
  const audiences = ['https://kubernetes.default.svc'];
  expect(ask(review('TokenReview', { token: 'alices' })).status).toEqual({
    authenticated: true,
    user: { username: 'alice', groups: ['dev'] },
    audiences,
  });
  const unknown = { user: {}, error: 'invalid bearer token' };
  expect(ask(review('TokenReview', { token: 'stolen' })).status).toEqual(unknown);
  expect(ask(review('TokenReview', { token: 'alices', audiences: ['elsewhere'] })).status).toEqual(unknown);
  expect(() => ask(review('TokenReview', {}))).toThrow('token is required for TokenReview in authentication');
});
