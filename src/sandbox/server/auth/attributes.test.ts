import { expect, test } from 'vitest';

import { forbiddenFor, type Attributes } from './attributes.ts';
import { getPath, getSecret } from '../../../../test/support/sandbox/rbac-objects.ts';

const alice = { username: 'alice', groups: [] };

test.each<[string, Attributes, string, string]>([
  [
    'a named object',
    getSecret,
    '',
    'secrets "password" is forbidden: User "alice" cannot get resource "secrets" in API group "" in the namespace "shop"',
  ],
  [
    'a collection across the cluster, with a reason',
    { ...getSecret, group: 'infra.example.com', resource: 'servers', verb: 'list', namespace: '', name: '' },
    'RBAC: no',
    'servers.infra.example.com is forbidden: User "alice" cannot list resource "servers" in API group "infra.example.com" at the cluster scope: RBAC: no',
  ],
  [
    'a subresource',
    { ...getSecret, resource: 'pods', subresource: 'log', name: 'db' },
    '',
    'pods "db" is forbidden: User "alice" cannot get resource "pods/log" in API group "" in the namespace "shop"',
  ],
  ['a path', getPath('/metrics'), '', 'forbidden: User "alice" cannot get path "/metrics"'],
  ['a path with markup', getPath('/<b>'), '', 'forbidden: User "alice" cannot get path "/&lt;b&gt;"'],
])('the error for %s names verb, resource and user', (_what, attributes, reason, message) => {
  expect(forbiddenFor(alice, attributes, reason).status).toMatchObject({
    code: 403,
    reason: 'Forbidden',
    message,
  });
});

test('the error for an object names it in the details; the error for a path has none', () => {
  expect(forbiddenFor(alice, getSecret, '').status.details).toEqual({ name: 'password', kind: 'secrets' });
  expect(forbiddenFor(alice, getPath('/metrics'), '').status.details).toEqual({});
});
