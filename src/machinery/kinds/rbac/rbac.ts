import { isEqual, type JsonObject } from '../../../json/json.ts';
import type { ApiObject } from '../../api-object.ts';
import { records, text, changed, section, withFields, items } from '../../fields.ts';
import type { Cause } from '../../failure.ts';
import { pathSegmentProblem } from '../../name-problems.ts';
import type { ResourceType, Strategy } from '../../resource-type.ts';
import { invalidValue, when } from '../../schema/causes.ts';
import { AGE, builtInKind, column, CREATED_AT, type BuiltInKind, withNulls } from '../built-in-kind.ts';
import {
  atomic,
  LABEL_SELECTOR,
  listOf,
  object,
  STRING,
  STRINGS,
  BOOLEAN,
  mapOf,
  withDefault,
  keyedList,
  LOCAL_REFERENCE,
  OBJECT_REFERENCE,
} from '../schema-builders.ts';
import type { Schema } from '../../schema/schema.ts';

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
  strategy: { ...NAMES, completeDefaults: withNulls('rules') },
});

export const CLUSTER_ROLE: ResourceType = builtInKind({
  apiVersion: API_VERSION,
  kind: 'ClusterRole',
  resource: 'clusterroles',
  description: 'What may be done in all namespaces, or to the cluster.',
  fields: { rules: RULES, aggregationRule: object({ clusterRoleSelectors: listOf(LABEL_SELECTOR) }) },
  columns: [CREATED_AT],
  strategy: { ...NAMES, completeDefaults: withNulls('rules') },
});

const BINDING = {
  apiVersion: API_VERSION,
  fields: {
    subjects: listOf(atomic(object({ kind: STRING, apiGroup: STRING, name: STRING, namespace: STRING }))),
    roleRef: atomic(object({ apiGroup: STRING, kind: STRING, name: STRING })),
  },
  columns: [column('Role', 'What it grants.', shownRole), AGE],
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

/** The function that answers each kind of review. Kinds without one are not served. */
export type ReviewAnswers = Readonly<Record<string, NonNullable<ResourceType['answer']>>>;

const EXTRA = mapOf(STRINGS);
const USER_INFO = object({ username: STRING, uid: STRING, groups: STRINGS, extra: EXTRA });

const SELECTOR = object({
  rawSelector: STRING,
  requirements: listOf(object({ key: STRING, operator: STRING, values: STRINGS })),
});
const ATTRIBUTES: Readonly<Record<string, Schema>> = {
  resourceAttributes: object({
    namespace: STRING,
    verb: STRING,
    group: STRING,
    version: STRING,
    resource: STRING,
    subresource: STRING,
    name: STRING,
    fieldSelector: SELECTOR,
    labelSelector: SELECTOR,
  }),
  nonResourceAttributes: object({ path: STRING, verb: STRING }),
};
const SUBJECT: Readonly<Record<string, Schema>> = {
  user: STRING,
  groups: STRINGS,
  extra: EXTRA,
  uid: STRING,
};
const ACCESS_STATUS = object({ allowed: BOOLEAN, denied: BOOLEAN, reason: STRING, evaluationError: STRING });

type Review = Pick<BuiltInKind, 'kind' | 'description' | 'fields'>;

const AUTHENTICATION: readonly Review[] = [
  {
    kind: 'TokenReview',
    description: 'Whose token is this?',
    fields: {
      spec: withDefault(object({ token: STRING, audiences: STRINGS }), {}),
      status: object({ authenticated: BOOLEAN, user: USER_INFO, audiences: STRINGS, error: STRING }),
    },
  },
  {
    kind: 'SelfSubjectReview',
    description: 'Who am I?',
    fields: { status: object({ userInfo: USER_INFO }) },
  },
];

const AUTHORIZATION: readonly Review[] = [
  {
    kind: 'SubjectAccessReview',
    description: 'May they do this?',
    fields: { spec: withDefault(object({ ...ATTRIBUTES, ...SUBJECT }), {}), status: ACCESS_STATUS },
  },
  {
    kind: 'SelfSubjectAccessReview',
    description: 'May I do this?',
    fields: { spec: withDefault(object(ATTRIBUTES), {}), status: ACCESS_STATUS },
  },
  {
    kind: 'SelfSubjectRulesReview',
    description: 'What may I do in a namespace?',
    fields: {
      spec: withDefault(object({ namespace: STRING }), {}),
      status: object({
        resourceRules: listOf(
          object({ verbs: STRINGS, apiGroups: STRINGS, resources: STRINGS, resourceNames: STRINGS }),
        ),
        nonResourceRules: listOf(object({ verbs: STRINGS, nonResourceURLs: STRINGS })),
        incomplete: BOOLEAN,
        evaluationError: STRING,
      }),
    },
  },
];

/** Review kinds are answered and not stored. The answering function validates them. */
export function reviewKinds(answers: ReviewAnswers): readonly ResourceType[] {
  const inGroup = (group: string) => (review: Review) => {
    const answer = Object.hasOwn(answers, review.kind) ? answers[review.kind] : undefined;
    if (answer === undefined) return [];
    const resource = `${review.kind.toLowerCase()}s`;
    return builtInKind({
      ...review,
      apiVersion: `${group}/v1`,
      resource,
      columns: [],
      verbs: ['create'],
      answer,
    });
  };
  return [
    ...AUTHENTICATION.flatMap(inGroup('authentication.k8s.io')),
    ...AUTHORIZATION.flatMap(inGroup('authorization.k8s.io')),
  ];
}

export const SERVICE_ACCOUNT: ResourceType = builtInKind({
  apiVersion: 'v1',
  kind: 'ServiceAccount',
  resource: 'serviceaccounts',
  namespaced: true,
  shortNames: ['sa'],
  description: 'Who a program is to the API.',
  fields: {
    secrets: keyedList(OBJECT_REFERENCE, ['name']),
    imagePullSecrets: listOf(LOCAL_REFERENCE),
    automountServiceAccountToken: BOOLEAN,
  },
  columns: [
    column('Secrets', 'How many Secrets its pods may use.', (account) => items(account, 'secrets').length),
    AGE,
  ],
});
