import type { ResourceType } from '../../resource-type.ts';
import type { Schema } from '../../schema/schema.ts';
import { builtInKind, AGE } from '../built-in-kind.ts';
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

interface Review {
  readonly group: 'authentication' | 'authorization';
  readonly kind: string;
  readonly namespaced?: true;
  readonly description: string;
  readonly spec?: Schema;
  readonly status: Schema;
}

const REVIEWS: readonly Review[] = [
  {
    group: 'authentication',
    kind: 'TokenReview',
    description: 'Whose token is this?',
    spec: object({ token: STRING, audiences: STRINGS }),
    status: object({ authenticated: BOOLEAN, user: USER_INFO, audiences: STRINGS, error: STRING }),
  },
  {
    group: 'authentication',
    kind: 'SelfSubjectReview',
    description: 'Who am I?',
    status: object({ userInfo: USER_INFO }),
  },
  {
    group: 'authorization',
    kind: 'SubjectAccessReview',
    description: 'May they do this?',
    spec: object({ ...ATTRIBUTES, ...SUBJECT }),
    status: ACCESS_STATUS,
  },
  {
    group: 'authorization',
    kind: 'LocalSubjectAccessReview',
    namespaced: true,
    description: 'May they do this in this namespace?',
    spec: object({ ...ATTRIBUTES, ...SUBJECT }),
    status: ACCESS_STATUS,
  },
  {
    group: 'authorization',
    kind: 'SelfSubjectAccessReview',
    description: 'May I do this?',
    spec: object(ATTRIBUTES),
    status: ACCESS_STATUS,
  },
  {
    group: 'authorization',
    kind: 'SelfSubjectRulesReview',
    description: 'What may I do in a namespace?',
    spec: object({ namespace: STRING }),
    status: object({
      resourceRules: listOf(
        object({ verbs: STRINGS, apiGroups: STRINGS, resources: STRINGS, resourceNames: STRINGS }),
      ),
      nonResourceRules: listOf(object({ verbs: STRINGS, nonResourceURLs: STRINGS })),
      incomplete: BOOLEAN,
      evaluationError: STRING,
    }),
  },
];

/** Review kinds are answered and not stored. The answering function validates them. */
export function reviewKinds(answers: ReviewAnswers): readonly ResourceType[] {
  return REVIEWS.flatMap(({ group, kind, namespaced, description, spec: asked, status }) => {
    const answer = Object.hasOwn(answers, kind) ? answers[kind] : undefined;
    if (answer === undefined) return [];
    return builtInKind({
      apiVersion: `${group}.k8s.io/v1`,
      kind,
      resource: `${kind.toLowerCase()}s`,
      ...(namespaced === undefined ? {} : { namespaced }),
      description,
      fields: { ...(asked === undefined ? {} : { spec: withDefault(asked, {}) }), status },
      columns: [],
      verbs: ['create'],
      answer,
    });
  });
}

/** v1 ServiceAccount. */
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
    {
      name: 'Secrets',
      type: 'string',
      description: 'How many Secrets its pods may use.',
      value: (account) => items(account, 'secrets').length,
    },
    AGE,
  ],
});
