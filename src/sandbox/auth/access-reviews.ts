import { isJsonArray, isJsonObject, type JsonObject, type JsonValue } from '../../json/json.ts';
import { record, spec, text, texts } from '../../machinery/fields.ts';
import type { ApiObject } from '../../machinery/api-object.ts';
import { ApiFailure, badRequest, invalid, type Cause } from '../../machinery/failure.ts';
import type { UserInfo } from '../../machinery/request.ts';
import { invalidValue } from '../../machinery/schema/causes.ts';
import { AUDIENCE, type FindUser } from './authenticate.ts';
import { missingRoles, type Attributes, type Authorizer } from './rbac.ts';

/** Answers a review without storing it. @throws ApiFailure 400 or 422 if the review is invalid */
type AnswerReview = (review: ApiObject, user: UserInfo) => ApiObject;

const GROUP = 'authorization.k8s.io';

/** The function that answers each review kind of authorization.k8s.io/v1 and authentication.k8s.io/v1. */
export function createReviews(
  { authorize, rulesFor }: Pick<Authorizer, 'authorize' | 'rulesFor'>,
  findUser: FindUser,
) {
  const decide = (review: ApiObject, user: UserInfo, ...problems: readonly (readonly Cause[])[]) => {
    refuse([attributesProblems(review), ...problems].flat());
    const { allowed, reason } = authorize(user, attributesOf(spec(review)));
    return withStatus(review, present({ allowed, reason }));
  };
  return {
    SelfSubjectAccessReview: (review, user) => decide(review, user, metadataProblems(review)),
    SubjectAccessReview: (review) =>
      decide(review, subjectOf(spec(review)), subjectProblems(review), metadataProblems(review)),
    SelfSubjectRulesReview: (review, user) => {
      const namespace = text(spec(review), 'namespace');
      if (namespace === '') throw badRequest('no namespace on request');
      // The API server answers with a new review without the spec.
      return { ...review, metadata: {}, spec: {}, status: rulesStatus(rulesFor(user, namespace)) };
    },
    SelfSubjectReview: (review, user) => withStatus(review, { userInfo: userJson(user) }),
    TokenReview: (review) => withStatus(review, tokenStatus(findUser, spec(review))),
  } as const satisfies Record<string, AnswerReview>;
}

const withStatus = (review: ApiObject, status: JsonObject): ApiObject => ({ ...review, status });

/** The API server leaves the kind empty here. */
function refuse(causes: readonly Cause[]): void {
  if (causes.length === 0) return;
  const { status } = invalid({ group: GROUP, kind: '' }, '', causes);
  throw new ApiFailure(status.code, 'Invalid', status.message ?? '', { group: GROUP, causes });
}

/** @see kubernetes/pkg/apis/authorization/validation */
function attributesProblems(review: ApiObject): readonly Cause[] {
  const resource = record(spec(review), 'resourceAttributes');
  const path = record(spec(review), 'nonResourceAttributes');
  if ((resource === undefined) !== (path === undefined)) return [];
  const why = 'exactly one of nonResourceAttributes or resourceAttributes must be specified';
  return [invalidValue('spec', path ?? null, why)];
}

function subjectProblems(review: ApiObject): readonly Cause[] {
  return text(spec(review), 'user') === '' && texts(spec(review), 'groups').length === 0
    ? [invalidValue('spec.user', '', 'at least one of user or group must be specified')]
    : [];
}

/** A review lacks a name and other metadata. */
function metadataProblems(review: ApiObject): readonly Cause[] {
  const given = Object.entries(record(review, 'metadata') ?? {}).filter(
    ([name, value]) => value !== null && name !== 'namespace' && name !== 'managedFields',
  );
  return given.length === 0 ? [] : [invalidValue('metadata', Object.fromEntries(given), 'must be empty')];
}

function attributesOf(asked: JsonObject): Attributes {
  const path = record(asked, 'nonResourceAttributes');
  if (path !== undefined) return { kind: 'path', verb: text(path, 'verb'), path: text(path, 'path') };
  const resource = record(asked, 'resourceAttributes') ?? {};
  return {
    kind: 'resource',
    verb: text(resource, 'verb'),
    group: text(resource, 'group'),
    resource: text(resource, 'resource'),
    subresource: text(resource, 'subresource'),
    namespace: text(resource, 'namespace'),
    name: text(resource, 'name'),
  };
}

function subjectOf(asked: JsonObject): UserInfo {
  const extra = record(asked, 'extra') ?? {};
  return {
    username: text(asked, 'user'),
    uid: text(asked, 'uid'),
    groups: texts(asked, 'groups'),
    extra: Object.fromEntries(Object.keys(extra).map((key) => [key, texts(extra, key)])),
  };
}

function rulesStatus({ rules, missing }: ReturnType<Authorizer['rulesFor']>): JsonObject {
  return {
    resourceRules: rules
      .filter(({ resources }) => resources.length > 0)
      .map(({ verbs, apiGroups, resources, resourceNames }) => ({
        verbs,
        ...present({ apiGroups, resources, resourceNames }),
      })),
    nonResourceRules: rules
      .filter(({ nonResourceURLs }) => nonResourceURLs.length > 0)
      .map(({ nonResourceURLs, verbs }) => ({ verbs, nonResourceURLs })),
    incomplete: false,
    ...(missing.length === 0 ? {} : { evaluationError: missingRoles(missing) }),
  };
}

function tokenStatus(findUser: FindUser, asked: JsonObject): JsonObject {
  const token = text(asked, 'token');
  if (token === '') throw badRequest('token is required for TokenReview in authentication');
  const audiences = ownAudiences(asked.audiences);
  const user = audiences.length === 0 ? undefined : findUser(token);
  return user === undefined
    ? { user: {}, error: 'invalid bearer token' }
    : { authenticated: true, user: userJson(user), audiences };
}

/** The requested audiences that include the API server; the API server itself if none was requested. */
function ownAudiences(asked: JsonValue | undefined): readonly string[] {
  return !isJsonArray(asked) || asked.length === 0 || asked.includes(AUDIENCE) ? [AUDIENCE] : [];
}

const userJson = ({ username, uid = '', groups, extra = {} }: UserInfo): JsonObject =>
  present({ username, uid, groups, extra });

const present = (fields: JsonObject): JsonObject =>
  Object.fromEntries(Object.entries(fields).filter(([, value]) => !isEmpty(value)));

const isEmpty = (value: JsonValue) =>
  isJsonObject(value)
    ? Object.keys(value).length === 0
    : isJsonArray(value)
      ? value.length === 0
      : value === '';
