import { expect, test } from 'vitest';

import { rulesOf } from './policy-rule.ts';
import { roleObject, type Rule } from '../../../../test/support/sandbox/rbac-objects.ts';
import { describeRules, missingRules } from './rule-cover.ts';

const rules = (...given: readonly Rule[]) => rulesOf(roleObject('', 'r', given));
const missing = (held: readonly Rule[], wanted: readonly Rule[]) =>
  describeRules(missingRules(rules(...held), rules(...wanted)));

const all = { apiGroups: ['*'], resources: ['*'], verbs: ['*'] };
const pods = { apiGroups: [''], resources: ['pods'], verbs: ['get', 'list'] };

test.each<[string, readonly Rule[], readonly Rule[]]>([
  ['itself', [pods], [pods]],
  ['anything', [all], [pods]],
  [
    'permissions from several rules together',
    [
      { ...pods, verbs: ['get'] },
      { ...pods, verbs: ['list'] },
    ],
    [pods],
  ],
  ['one name', [pods], [{ ...pods, resourceNames: ['db'] }]],
  ['some of the names', [{ ...pods, resourceNames: ['db', 'web'] }], [{ ...pods, resourceNames: ['db'] }]],
  ['a subresource', [{ ...pods, resources: ['*/status'] }], [{ ...pods, resources: ['pods/status'] }]],
  [
    'paths',
    [{ nonResourceURLs: ['/a/*'], verbs: ['get'] }],
    [{ nonResourceURLs: ['/a/b', '/a/*'], verbs: ['get'] }],
  ],
])('nothing is missing for %s', (_what, held, wanted) => {
  expect(missing(held, wanted)).toEqual([]);
});

test.each<[string, readonly Rule[], readonly Rule[], readonly string[]]>([
  ['everything', [], [pods], ['{APIGroups:[""], Resources:["pods"], Verbs:["get" "list"]}']],
  [
    'one verb',
    [{ ...pods, verbs: ['get'] }],
    [pods],
    ['{APIGroups:[""], Resources:["pods"], Verbs:["list"]}'],
  ],
  [
    'all names, when only some are held',
    [{ ...pods, resourceNames: ['db'] }],
    [{ ...pods, verbs: ['get'] }],
    ['{APIGroups:[""], Resources:["pods"], Verbs:["get"]}'],
  ],
  [
    'a name',
    [],
    [{ ...pods, resourceNames: ['web', 'db'] }],
    [
      '{APIGroups:[""], Resources:["pods"], ResourceNames:["db"], Verbs:["get" "list"]}',
      '{APIGroups:[""], Resources:["pods"], ResourceNames:["web"], Verbs:["get" "list"]}',
    ],
  ],
  ['all', [pods], [all], ['{APIGroups:["*"], Resources:["*"], Verbs:["*"]}']],
  [
    'paths',
    [],
    [{ nonResourceURLs: ['/a'], verbs: ['get', 'put'] }],
    ['{NonResourceURLs:["/a"], Verbs:["get"]}', '{NonResourceURLs:["/a"], Verbs:["put"]}'],
  ],
])('missing rules are described: %s', (_what, held, wanted, lines) => {
  expect(missing(held, wanted)).toEqual(lines);
});
