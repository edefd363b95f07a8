import { isJsonArray, isJsonObject, type JsonObject, type JsonValue } from '../../json/json.ts';
import { record, text, texts } from '../../machinery/fields.ts';
import type { ApiObject } from '../../machinery/api-object.ts';
import { ApiFailure, badRequest, invalid, type Cause } from '../../machinery/failure.ts';
import type { UserInfo } from '../../machinery/request.ts';
import type { Attributes } from './attributes.ts';
import type { FindUser } from './authenticate.ts';
import type { PolicyRule } from './policy-rule.ts';
import { missingRoles, type Authorizer } from './rbac.ts';

/**
 * Answers a create request for a review; nothing is stored. @throws ApiFailure 400 or 422 if the review is invalid
 */
export type AnswerReview = (review: ApiObject, user: UserInfo) => ApiObject;

const GROUP = 'authorization.k8s.io';

/** Tokens have the API server as their only audience. */
const AUDIENCE = 'https://kubernetes.default.svc';

/** The function that answers each review kind of authorization.k8s.io/v1 and authentication.k8s.io/v1. */
export function createReviews(
  { authorize, rulesFor }: Pick<Authorizer, 'authorize' | 'rulesFor'>,
  findUser: FindUser,
) {
  return {
    SelfSubjectAccessReview: (review, user) => {
      const spec = specOf(review);
      refuse([...attributesProblems(spec), ...metadataProblems(review)]);
      return withStatus(review, verdict(authorize, user, spec));
    },
    SubjectAccessReview: (review) => {
      const spec = specOf(review);
      refuse([...attributesProblems(spec), ...subjectProblems(spec), ...metadataProblems(review)]);
      return withStatus(review, verdict(authorize, subjectOf(spec), spec));
    },
    LocalSubjectAccessReview: (review) => {
      const spec = specOf(review);
      refuse([
        ...attributesProblems(spec),
        ...subjectProblems(spec),
        ...metadataProblems(review),
        ...localProblems(review, spec),
      ]);
      return withStatus(review, verdict(authorize, subjectOf(spec), spec));
    },
    SelfSubjectRulesReview: (review, user) => {
      const namespace = text(specOf(review), 'namespace');
      if (namespace === '') throw badRequest('no namespace on request');
      // The API server answers with a new review without the spec.
      return { ...review, metadata: {}, spec: {}, status: rulesStatus(rulesFor(user, namespace)) };
    },
    SelfSubjectReview: (review, user) => withStatus(review, { userInfo: userJson(user) }),
    TokenReview: (review) => withStatus(review, tokenStatus(findUser, specOf(review))),
  } as const satisfies Record<string, AnswerReview>;
}

const specOf = (review: ApiObject): JsonObject => record(review, 'spec') ?? {};

const withStatus = (review: ApiObject, status: JsonObject): ApiObject => ({ ...review, status });

/** The API server leaves the kind empty here. */
function refuse(causes: readonly Cause[]): void {
  if (causes.length === 0) return;
  const { status } = invalid({ group: GROUP, kind: '' }, '', causes);
  throw new ApiFailure(status.code, 'Invalid', status.message ?? '', { group: GROUP, causes });
}

const wrong = (field: string, value: string, why: string): Cause => ({
  reason: 'FieldValueInvalid',
  message: `Invalid value: ${value}: ${why}`,
  field,
});

/** @see kubernetes/pkg/apis/authorization/validation */
function attributesProblems(spec: JsonObject): readonly Cause[] {
  const resource = record(spec, 'resourceAttributes');
  const path = record(spec, 'nonResourceAttributes');
  if ((resource === undefined) !== (path === undefined)) return [];
  const why = 'exactly one of nonResourceAttributes or resourceAttributes must be specified';
  return [wrong('spec', JSON.stringify(path ?? null), why)];
}

function subjectProblems(spec: JsonObject): readonly Cause[] {
  return text(spec, 'user') === '' && texts(spec, 'groups').length === 0
    ? [wrong('spec.user', '""', 'at least one of user or group must be specified')]
    : [];
}

/** A review has no name or other metadata. {@link localProblems} checks its namespace. */
function metadataProblems(review: ApiObject): readonly Cause[] {
  const given = Object.entries(record(review, 'metadata') ?? {}).filter(
    ([name, value]) => value !== null && name !== 'namespace' && name !== 'managedFields',
  );
  return given.length === 0
    ? []
    : [wrong('metadata', JSON.stringify(Object.fromEntries(given)), 'must be empty')];
}

function localProblems({ metadata }: ApiObject, spec: JsonObject): readonly Cause[] {
  const path = record(spec, 'nonResourceAttributes');
  if (path !== undefined) {
    return [wrong('spec.nonResourceAttributes', JSON.stringify(path), 'disallowed on this kind of request')];
  }
  const namespace = text(record(spec, 'resourceAttributes') ?? {}, 'namespace');
  return namespace === (metadata.namespace ?? '')
    ? []
    : [
        wrong(
          'spec.resourceAttributes.namespace',
          JSON.stringify(namespace),
          'must match metadata.namespace',
        ),
      ];
}

function verdict(authorize: Authorizer['authorize'], user: UserInfo, spec: JsonObject): JsonObject {
  const { allowed, reason } = authorize(user, attributesOf(spec));
  return { allowed, ...(reason === '' ? {} : { reason }) };
}

function attributesOf(spec: JsonObject): Attributes {
  const path = record(spec, 'nonResourceAttributes');
  if (path !== undefined) return { kind: 'path', verb: text(path, 'verb'), path: text(path, 'path') };
  const asked = record(spec, 'resourceAttributes') ?? {};
  return {
    kind: 'resource',
    verb: text(asked, 'verb'),
    group: text(asked, 'group'),
    resource: text(asked, 'resource'),
    subresource: text(asked, 'subresource'),
    namespace: text(asked, 'namespace'),
    name: text(asked, 'name'),
  };
}

function subjectOf(spec: JsonObject): UserInfo {
  const extra = record(spec, 'extra') ?? {};
  return {
    username: text(spec, 'user'),
    uid: text(spec, 'uid'),
    groups: texts(spec, 'groups'),
    extra: Object.fromEntries(Object.keys(extra).map((key) => [key, texts(extra, key)])),
  };
}

function rulesStatus({ rules, missing }: ReturnType<Authorizer['rulesFor']>): JsonObject {
  const filled = (lists: Partial<PolicyRule>): JsonObject =>
    Object.fromEntries(
      Object.entries(lists).flatMap(([name, list]) => (list.length === 0 ? [] : [[name, list] as const])),
    );
  return {
    resourceRules: rules
      .filter(({ resources }) => resources.length > 0)
      .map(({ verbs, apiGroups, resources, resourceNames }) => ({
        verbs,
        ...filled({ apiGroups, resources, resourceNames }),
      })),
    nonResourceRules: rules
      .filter(({ nonResourceURLs }) => nonResourceURLs.length > 0)
      .map(({ nonResourceURLs, verbs }) => ({ verbs, nonResourceURLs })),
    incomplete: false,
    ...(missing.length === 0 ? {} : { evaluationError: missingRoles(missing) }),
  };
}

function tokenStatus(findUser: FindUser, spec: JsonObject): JsonObject {
  const token = text(spec, 'token');
  if (token === '') throw badRequest('token is required for TokenReview in authentication');
  const audiences = ownAudiences(spec.audiences);
  const user = audiences.length === 0 ? undefined : findUser(token);
  return user === undefined
    ? { user: {}, error: 'invalid bearer token' }
    : { authenticated: true, user: userJson(user), audiences };
}

/** The requested audiences that include the API server; the API server itself if none was requested. */
function ownAudiences(asked: JsonValue | undefined): readonly string[] {
  return !isJsonArray(asked) || asked.length === 0 || asked.includes(AUDIENCE) ? [AUDIENCE] : [];
}

/** As JSON, without empty fields. */
function userJson({ username, uid = '', groups, extra = {} }: UserInfo): JsonObject {
  const fields = { username, uid, groups, extra };
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => !isEmpty(value)));
}

const isEmpty = (value: JsonValue) =>
  isJsonObject(value)
    ? Object.keys(value).length === 0
    : isJsonArray(value)
      ? value.length === 0
      : value === '';
