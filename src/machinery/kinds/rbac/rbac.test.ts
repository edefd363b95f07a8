import { expect, test } from 'vitest';
import { toJson } from '../../api-object.ts';
import {
  cells,
  created,
  createProblems,
  SUBDOMAIN_PROBLEM,
  typeOf,
  updateProblems,
} from '../../../../test/support/sandbox/built-in-objects.ts';

const GROUP = 'rbac.authorization.k8s.io';
const ROLE = `${GROUP}/v1 Role`;
const CLUSTER_ROLE = `${GROUP}/v1 ClusterRole`;
const BINDING = `${GROUP}/v1 RoleBinding`;
const CLUSTER_BINDING = `${GROUP}/v1 ClusterRoleBinding`;
const VIEW = { kind: 'ClusterRole', name: 'view' };

test.each([
  ['no verbs', [{ resources: ['a'], apiGroups: [''] }], ['rules[0].verbs: Required value']],
  [
    'no API groups',
    [{ verbs: ['get'], resources: ['a'] }],
    ['rules[0].apiGroups: Required value: resource rules must supply at least one api group'],
  ],
  [
    'no resources',
    [{ verbs: ['get'], apiGroups: [''] }],
    ['rules[0].resources: Required value: resource rules must supply at least one resource'],
  ],
  [
    'paths and resources',
    [{ verbs: ['get'], nonResourceURLs: ['/a'], resources: ['a'] }],
    [
      'rules[0].nonResourceURLs: Invalid value: ["/a"]: namespaced rules cannot apply to non-resource URLs',
      'rules[0].nonResourceURLs: Invalid value: ["/a"]: rules cannot apply to both regular resources and non-resource URLs',
    ],
  ],
  [
    'all required fields',
    [{ verbs: ['get'], apiGroups: [''], resources: ['a', 'b'], resourceNames: ['x'] }],
    [],
  ],
])('a Role is rejected if its rule has %s', (_what, rules, expected) => {
  expect(createProblems(ROLE, { rules })).toEqual(expected);
});

test('a ClusterRole may have nonResourceURLs', () => {
  expect(createProblems(CLUSTER_ROLE, { rules: [{ verbs: ['get'], nonResourceURLs: ['/a'] }] })).toEqual([]);
});

test('an aggregated ClusterRole needs selectors', () => {
  expect(createProblems(CLUSTER_ROLE, { aggregationRule: {} })).toEqual([
    'aggregationRule.clusterRoleSelectors: Required value: at least one clusterRoleSelector required if aggregationRule is non-nil',
  ]);
});

test('subjects and roleRef default to the RBAC API group', () => {
  const binding = created(BINDING, {
    roleRef: VIEW,
    subjects: [
      { kind: 'User', name: 'a' },
      { kind: 'Group', name: 'b' },
      { kind: 'ServiceAccount', name: 'c' },
    ],
  });
  expect(toJson(binding)).toMatchObject({
    roleRef: { apiGroup: GROUP, ...VIEW },
    subjects: [
      { kind: 'User', name: 'a', apiGroup: GROUP },
      { kind: 'Group', name: 'b', apiGroup: GROUP },
      { kind: 'ServiceAccount', name: 'c' },
    ],
  });
});

test.each([
  [
    'no role',
    BINDING,
    {},
    [
      'roleRef.kind: Unsupported value: "": supported values: "Role", "ClusterRole"',
      'roleRef.name: Required value',
    ],
  ],
  [
    'a role in another group',
    BINDING,
    { roleRef: { apiGroup: 'a', kind: 'Foo', name: '..' } },
    [
      `roleRef.apiGroup: Unsupported value: "a": supported values: "${GROUP}"`,
      'roleRef.kind: Unsupported value: "Foo": supported values: "Role", "ClusterRole"',
      'roleRef.name: Invalid value: "..": may not be \'..\'',
    ],
  ],
  [
    'a Role in a ClusterRoleBinding',
    CLUSTER_BINDING,
    { roleRef: { kind: 'Role', name: 'x' } },
    ['roleRef.kind: Unsupported value: "Role": supported values: "ClusterRole"'],
  ],
  [
    'a subject of an unknown kind',
    BINDING,
    { roleRef: VIEW, subjects: [{ kind: 'Foo', name: 'a' }] },
    ['subjects[0].kind: Unsupported value: "Foo": supported values: "ServiceAccount", "User", "Group"'],
  ],
  [
    'a user without a name',
    BINDING,
    { roleRef: VIEW, subjects: [{ kind: 'User' }] },
    ['subjects[0].name: Required value'],
  ],
  [
    'a service account in the RBAC group',
    BINDING,
    { roleRef: VIEW, subjects: [{ kind: 'ServiceAccount', name: 'a', apiGroup: GROUP }] },
    [`subjects[0].apiGroup: Unsupported value: "${GROUP}": supported values: ""`],
  ],
  [
    'a service account without a namespace',
    CLUSTER_BINDING,
    { roleRef: VIEW, subjects: [{ kind: 'ServiceAccount', name: 'a' }] },
    ['subjects[0].namespace: Required value'],
  ],
])('a binding is rejected that has %s', (_what, kind, fields, expected) => {
  expect(createProblems(kind, fields as never)).toEqual(expected);
});

test('a ServiceAccount subject must have a valid name', () => {
  const fields = { roleRef: VIEW, subjects: [{ kind: 'ServiceAccount', name: 'C_' }] };
  expect(createProblems(BINDING, fields)[0]).toContain(
    `subjects[0].name: Invalid value: "C_": ${SUBDOMAIN_PROBLEM}`,
  );
});

test('the roleRef of a binding is immutable', () => {
  expect(
    updateProblems(BINDING, { roleRef: VIEW }, { roleRef: { kind: 'ClusterRole', name: 'edit' } }),
  ).toEqual([
    `roleRef: Invalid value: {"APIGroup":"${GROUP}","Kind":"ClusterRole","Name":"edit"}: field is immutable`,
  ]);
});

test.each([
  ['a:b', undefined],
  ['A_b', undefined],
  ['a/b', "may not contain '/'"],
  ['a%b', "may not contain '%'"],
  ['..', "may not be '..'"],
])('%s as the name of a role', (name, problem) => {
  expect(typeOf(ROLE).strategy.nameProblem?.(name)).toBe(problem);
});

test('the table lists the subjects of a binding by kind', () => {
  const subjects = [
    { kind: 'User', name: 'a' },
    { kind: 'User', name: 'b' },
    { kind: 'ServiceAccount', name: 'c', namespace: 'd' },
  ];
  expect(cells(BINDING, created(BINDING, { roleRef: VIEW, subjects }))).toEqual({
    Role: 'ClusterRole/view',
    Users: 'a, b',
    Groups: '',
    ServiceAccounts: 'd/c',
  });
});
