import type { ResourceType } from '../../resource-type.ts';
import type { Schema } from '../../schema/schema.ts';
import { AGE, builtInKind, column, type BuiltInKind } from '../built-in-kind.ts';
import {
  BOOLEAN,
  listOf,
  mapOf,
  object,
  STRING,
  STRINGS,
  withDefault,
  keyedList,
  LOCAL_REFERENCE,
  OBJECT_REFERENCE,
} from '../schema-builders.ts';
import { items } from '../../fields.ts';

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
