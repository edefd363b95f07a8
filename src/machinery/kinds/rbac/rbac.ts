import { isEqual, type JsonObject } from '../../../json/json.ts';
import type { ApiObject } from '../../api-object.ts';
import { records, text, changed, section, withFields } from '../../fields.ts';
import type { Cause } from '../../failure.ts';
import { pathSegmentProblem } from '../../name-problems.ts';
import type { PrinterColumn, ResourceType, Strategy } from '../../resource-type.ts';
import { invalidValue, when } from '../../schema/causes.ts';
import { AGE, builtInKind, column, CREATED_AT, wideColumn, type BuiltInKind } from '../built-in-kind.ts';
import { atomic, LABEL_SELECTOR, listOf, object, STRING, STRINGS } from '../schema-builders.ts';

const GROUP = 'rbac.authorization.k8s.io';
const API_VERSION = `${GROUP}/v1`;

const RULES = listOf(
  object({
    verbs: STRINGS,
    apiGroups: STRINGS,
    resources: STRINGS,
    resourceNames: STRINGS,
    nonResourceURLs: STRINGS,
  }),
);

/** Any path segment is a valid name; the authoriser prevents privilege escalation. */
const NAMES = { nameProblem: pathSegmentProblem } satisfies Partial<Strategy>;

export const ROLE: ResourceType = builtInKind({
  apiVersion: API_VERSION,
  kind: 'Role',
  resource: 'roles',
  namespaced: true,
  description: 'What may be done in one namespace.',
  fields: { rules: RULES },
  columns: [CREATED_AT],
  strategy: NAMES,
});

export const CLUSTER_ROLE: ResourceType = builtInKind({
  apiVersion: API_VERSION,
  kind: 'ClusterRole',
  resource: 'clusterroles',
  description: 'What may be done in all namespaces, or to the cluster.',
  fields: { rules: RULES, aggregationRule: object({ clusterRoleSelectors: listOf(LABEL_SELECTOR) }) },
  columns: [CREATED_AT],
  strategy: NAMES,
});

const BINDING = {
  apiVersion: API_VERSION,
  fields: {
    subjects: listOf(atomic(object({ kind: STRING, apiGroup: STRING, name: STRING, namespace: STRING }))),
    roleRef: atomic(object({ apiGroup: STRING, kind: STRING, name: STRING })),
  },
  columns: [
    column('Role', 'What it grants.', shownRole),
    AGE,
    subjectColumn('Users', 'User'),
    subjectColumn('Groups', 'Group'),
    subjectColumn('ServiceAccounts', 'ServiceAccount'),
  ],
  strategy: { ...NAMES, completeDefaults: withGroups, validateUpdate: roleRefProblems },
} as const satisfies Partial<BuiltInKind>;

export const ROLE_BINDING: ResourceType = builtInKind({
  ...BINDING,
  kind: 'RoleBinding',
  resource: 'rolebindings',
  namespaced: true,
  description: 'Who has a role in one namespace.',
});

export const CLUSTER_ROLE_BINDING: ResourceType = builtInKind({
  ...BINDING,
  kind: 'ClusterRoleBinding',
  resource: 'clusterrolebindings',
  description: 'Who has a role everywhere.',
});

/** Users, groups and roles default to the RBAC group, service accounts to the core group (pkg/apis/rbac/v1/defaults.go). */
function withGroups(binding: ApiObject): ApiObject {
  const roleRef = section(binding, 'roleRef');
  const subjects = records(binding, 'subjects').map((subject) =>
    ['User', 'Group'].includes(text(subject, 'kind')) ? inGroup(subject) : subject,
  );
  return withFields(binding, {
    ...(subjects.length === 0 ? {} : { subjects }),
    roleRef: inGroup(roleRef),
  });
}

const inGroup = (reference: JsonObject): JsonObject =>
  text(reference, 'apiGroup') === '' ? changed(reference, { apiGroup: GROUP }) : reference;

function shownRole(binding: ApiObject): string {
  const roleRef = section(binding, 'roleRef');
  return `${text(roleRef, 'kind')}/${text(roleRef, 'name')}`;
}

function subjectColumn(name: string, kind: string): PrinterColumn {
  const shown = (subject: JsonObject) =>
    kind === 'ServiceAccount'
      ? `${text(subject, 'namespace')}/${text(subject, 'name')}`
      : text(subject, 'name');
  return wideColumn(name, `${name} in the binding`, (binding) =>
    records(binding, 'subjects')
      .filter((subject) => text(subject, 'kind') === kind)
      .map(shown)
      .join(', '),
  );
}

/** roleRef is immutable; the message prints the API server's own struct. */
function roleRefProblems(binding: ApiObject, old: ApiObject): readonly Cause[] {
  const roleRef = section(binding, 'roleRef');
  const shown = {
    APIGroup: text(roleRef, 'apiGroup'),
    Kind: text(roleRef, 'kind'),
    Name: text(roleRef, 'name'),
  };
  return when(
    !isEqual(roleRef, section(old, 'roleRef')),
    invalidValue('roleRef', shown, 'field is immutable'),
  );
}
