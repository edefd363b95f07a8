import { expect, test } from 'vitest';

import type { Attributes } from './attributes.ts';
import { ruleAllows, rulesOf } from './policy-rule.ts';
import { getPath, getSecret, roleObject, type Rule } from '../../../../test/support/sandbox/rbac-objects.ts';

const allows = (rule: Rule, attributes: Attributes) =>
  rulesOf(roleObject('', 'r', [rule])).some((one) => ruleAllows(one, attributes));

const status: Attributes = { ...getSecret, resource: 'pods', subresource: 'status' };
const secrets = { apiGroups: [''], resources: ['secrets'], verbs: ['get'] };

test.each<[string, Rule, Attributes, boolean]>([
  ['the same request', secrets, getSecret, true],
  ['another verb', { ...secrets, verbs: ['list'] }, getSecret, false],
  ['every verb', { ...secrets, verbs: ['*'] }, getSecret, true],
  ['another group', { ...secrets, apiGroups: ['apps'] }, getSecret, false],
  ['every group', { ...secrets, apiGroups: ['*'] }, getSecret, true],
  ['every resource', { ...secrets, resources: ['*'] }, getSecret, true],
  ['every resource, for a subresource', { ...secrets, resources: ['*'] }, status, true],
  ['only the resource, for a subresource', { ...secrets, resources: ['pods'] }, status, false],
  ['the subresource', { ...secrets, resources: ['pods/status'] }, status, true],
  ['the subresource of every resource', { ...secrets, resources: ['*/status'] }, status, true],
  ['another subresource of every resource', { ...secrets, resources: ['*/scale'] }, status, false],
  ['all subresources, which RBAC does not support', { ...secrets, resources: ['pods/*'] }, status, false],
  ['a subresource, for the resource', { ...secrets, resources: ['secrets/status'] }, getSecret, false],
  ['the name', { ...secrets, resourceNames: ['other', 'password'] }, getSecret, true],
  ['another name', { ...secrets, resourceNames: ['other'] }, getSecret, false],
  [
    'a name, for a collection',
    { ...secrets, resourceNames: ['password'] },
    { ...getSecret, name: '' },
    false,
  ],
  ['a path', { nonResourceURLs: ['/metrics'], verbs: ['get'] }, getPath('/metrics'), true],
  [
    'a path, for one below it',
    { nonResourceURLs: ['/metrics'], verbs: ['get'] },
    getPath('/metrics/a'),
    false,
  ],
  ['all below a path', { nonResourceURLs: ['/metrics/*'], verbs: ['get'] }, getPath('/metrics/a'), true],
  ['every path', { nonResourceURLs: ['*'], verbs: ['*'] }, getPath('/metrics'), true],
  ['every path, for a resource', { nonResourceURLs: ['*'], verbs: ['*'] }, getSecret, false],
  ['every resource, for a path', { ...secrets, resources: ['*'] }, getPath('/metrics'), false],
])('a rule for %s', (_what, rule, attributes, allowed) => {
  expect(allows(rule, attributes)).toBe(allowed);
});
