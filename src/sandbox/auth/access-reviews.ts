import { isJsonArray, type JsonObject, type JsonValue } from '../../json/json.ts';
import { isEmpty, record, spec, text, texts } from '../../machinery/fields.ts';
import type { ApiObject } from '../../machinery/api-object.ts';
import { badRequest } from '../../machinery/failure.ts';
import type { UserInfo } from '../../machinery/request.ts';
import { AUDIENCE, type FindUser } from './authenticate.ts';
import type { Attributes, Authorizer } from './rbac.ts';

/** The function that answers each review kind of authorization.k8s.io/v1 and authentication.k8s.io/v1. */
export function createReviews(
  { authorize, rulesFor }: Pick<Authorizer, 'authorize' | 'rulesFor'>,
  findUser: FindUser,
) {
  const decide = (review: ApiObject, user: UserInfo) =>
    withStatus(review, { allowed: authorize(user, attributesOf(spec(review))) });
  return {
    SelfSubjectAccessReview: decide,
    SubjectAccessReview: (review) => decide(review, subjectOf(spec(review))),
    SelfSubjectRulesReview: (review, user) => {
      const namespace = text(spec(review), 'namespace');
      if (namespace === '') throw badRequest('no namespace on request');
      // The API server answers with a new review without the spec.
      return { ...review, metadata: {}, spec: {}, status: rulesStatus(rulesFor(user, namespace)) };
    },
    SelfSubjectReview: (review, user) => withStatus(review, { userInfo: userJson(user) }),
    TokenReview: (review) => withStatus(review, tokenStatus(findUser, spec(review))),
  } as const satisfies Record<string, (review: ApiObject, user: UserInfo) => ApiObject>;
}

const withStatus = (review: ApiObject, status: JsonObject): ApiObject => ({ ...review, status });

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

function rulesStatus(rules: ReturnType<Authorizer['rulesFor']>): JsonObject {
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
  Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== '' && !isEmpty(value)));
