import { isJsonArray, isJsonObject, textIn, type JsonObject, type JsonValue } from '../../json/json.ts';
import { toJson, type ApiObject } from '../api-object.ts';
import { ApiFailure } from '../failure.ts';
import { record } from '../fields.ts';
import type { UserInfo } from '../request.ts';
import { apiVersionOf, type ResourceType } from '../resource-type.ts';

export interface AdmissionAttributes {
  readonly operation: 'CREATE' | 'UPDATE' | 'DELETE';
  readonly type: ResourceType;
  readonly subresource: string;
  readonly namespace: string;
  readonly name: string;
  readonly object?: ApiObject;
  readonly oldObject?: ApiObject;
  /** The kind of a subresource with its own kind; webhooks see the objects only as this kind. */
  readonly shownAs?: ResourceType;
  readonly user: UserInfo;
  readonly dryRun: boolean;
  readonly options: JsonObject;
}

export const withObject = (
  attributes: AdmissionAttributes,
  object: ApiObject | undefined,
): AdmissionAttributes => (object === undefined ? attributes : { ...attributes, object });

/** The content of an AdmissionReview for one webhook. `seen` is the version that the webhook wants. */
export interface Question {
  readonly uid: string;
  readonly version: 'v1' | 'v1beta1';
  readonly attributes: AdmissionAttributes;
  readonly seen: ResourceType;
  readonly object: ApiObject | undefined;
  readonly oldObject: ApiObject | undefined;
}

const kindOf = ({ group, version, kind }: ResourceType) => ({ group, version, kind });
const resourceOf = ({ group, version, resource }: ResourceType) => ({ group, version, resource });

export function admissionReview(question: Question): JsonObject {
  const { uid, version, object, oldObject } = question;
  const seen = question.attributes.shownAs ?? question.seen;
  const { options, ...request } = admissionRequest(question);
  return {
    kind: 'AdmissionReview',
    apiVersion: `admission.k8s.io/${version}`,
    request: {
      uid,
      ...request,
      object: shown(object, seen),
      oldObject: shown(oldObject, seen),
      options: options ?? null,
    },
  };
}

/** The request without its objects, which is also what matchConditions see as `request`. */
export function admissionRequest({ attributes, seen }: Question): JsonObject {
  const { type, shownAs, subresource, name, namespace, operation, user, dryRun, options } = attributes;
  return {
    kind: kindOf(shownAs ?? seen),
    resource: resourceOf(seen),
    ...(subresource === '' ? {} : { subResource: subresource }),
    requestKind: kindOf(shownAs ?? type),
    requestResource: resourceOf(type),
    ...(subresource === '' ? {} : { requestSubResource: subresource }),
    ...(name === '' ? {} : { name }),
    ...(namespace === '' ? {} : { namespace }),
    operation,
    userInfo: {
      ...(user.username === '' ? {} : { username: user.username }),
      ...(user.uid === undefined || user.uid === '' ? {} : { uid: user.uid }),
      groups: user.groups,
      ...(user.extra === undefined ? {} : { extra: user.extra }),
    },
    dryRun,
    options,
  };
}

const shown = (object: ApiObject | undefined, seen: ResourceType): JsonValue =>
  object === undefined ? null : { ...toJson(object), apiVersion: apiVersionOf(seen), kind: seen.kind };

/** `patch` is the text of a JSON Patch. It and `patchType` are empty if there is none. */
export type Verdict = ReturnType<typeof verdictOf>;

/** Parses an answer as strictly as the API server (k8s.io/apiserver/pkg/admission/plugin/webhook/request). */
export function verdictOf(
  answer: JsonValue,
  { version, uid }: Pick<Question, 'version' | 'uid'>,
  mutating: boolean,
) {
  const response = isJsonObject(answer) ? record(answer, 'response') : undefined;
  if (response === undefined) throw new Error('webhook response was absent');
  if (version === 'v1') {
    if (response.uid !== uid) {
      throw new Error(
        `expected response.uid=${JSON.stringify(uid)}, got ${JSON.stringify(textIn(response, 'uid'))}`,
      );
    }
    checkType(answer);
    checkPatch(response, mutating);
  }
  const { warnings, auditAnnotations, status } = response;
  const patch = mutating ? Buffer.from(textIn(response, 'patch'), 'base64').toString('utf8') : '';
  return {
    allowed: response.allowed === true,
    patch,
    patchType: version === 'v1' ? textIn(response, 'patchType') : patch === '' ? '' : JSON_PATCH,
    warnings: isJsonArray(warnings) ? warnings.map((warning) => textIn(warning)) : [],
    auditAnnotations: isJsonObject(auditAnnotations)
      ? Object.entries(auditAnnotations).map(([key, value]) => [key, textIn(value)] as const)
      : [],
    status: isJsonObject(status) ? status : undefined,
  };
}

export const JSON_PATCH = 'JSONPatch';

function checkType(answer: JsonValue): void {
  const [apiVersion, kind] = [textIn(answer, 'apiVersion'), textIn(answer, 'kind')];
  if (apiVersion === 'admission.k8s.io/v1' && kind === 'AdmissionReview') return;
  // Go prints a GroupVersionKind with the group before the slash; the core group is empty.
  const got = apiVersion.includes('/') ? apiVersion : `/${apiVersion}`;
  throw new Error(
    `expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview, got ${got}, Kind=${kind}`,
  );
}

function checkPatch(response: JsonObject, mutating: boolean): void {
  const hasPatch = textIn(response, 'patch') !== '';
  const hasType = typeof response.patchType === 'string';
  if (!mutating) {
    if (hasPatch) throw new Error('validating webhook may not return response.patch');
    if (hasType) throw new Error('validating webhook may not return response.patchType');
    return;
  }
  if (hasPatch && !hasType) throw new Error('webhook returned response.patch but not response.patchType');
  if (hasType && !hasPatch) throw new Error('webhook returned response.patchType but not response.patch');
  if (response.patchType === '') throw new Error('webhook returned invalid response.patchType of ""');
}

/** The error for the client, with the webhook's status as far as it makes sense for a refusal. */
export function refusalOf(name: string, status: JsonObject | undefined): ApiFailure {
  const deniedBy = `admission webhook ${JSON.stringify(name)} denied the request`;
  const { code, details } = status ?? {};
  const reason = textIn(status, 'reason');
  const said = textIn(status, 'message') || reason;
  return new ApiFailure(
    typeof code === 'number' && code >= 400 ? code : 400,
    reason,
    said === '' ? `${deniedBy} without explanation` : `${deniedBy}: ${said}`,
    isJsonObject(details) ? details : undefined,
  );
}
