import {
  isJsonArray,
  isJsonObject,
  ownValue,
  type JsonObject,
  type JsonValue,
} from '../../admission/json.ts';
import { toJson, type ApiObject } from '../api-object.ts';
import { ApiFailure } from '../failure.ts';
import type { AdmissionAttributes } from '../pipeline/context.ts';
import { apiVersionOf, type ResourceType } from '../resource-type.ts';

/** What a webhook is asked: an AdmissionReview of admission.k8s.io. `seen` is the version that it wants. */
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
  return {
    kind: 'AdmissionReview',
    apiVersion: `admission.k8s.io/${question.version}`,
    request: admissionRequest(question),
  };
}

/** Also what matchConditions see as `request`. */
export function admissionRequest({ uid, attributes, seen, object, oldObject }: Question): JsonObject {
  const { type, subresource, name, namespace, operation, user, dryRun, options } = attributes;
  return {
    uid,
    kind: kindOf(seen),
    resource: resourceOf(seen),
    ...(subresource === '' ? {} : { subResource: subresource }),
    requestKind: kindOf(type),
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
    object: shown(object, seen),
    oldObject: shown(oldObject, seen),
    dryRun,
    options,
  };
}

const shown = (object: ApiObject | undefined, seen: ResourceType): JsonValue =>
  object === undefined ? null : { ...toJson(object), apiVersion: apiVersionOf(seen), kind: seen.kind };

/** What a webhook answered. */
export interface Verdict {
  readonly allowed: boolean;
  /** Operations of a JSON Patch; undefined when there is no patch. */
  readonly patch?: JsonValue;
  readonly warnings: readonly string[];
  readonly auditAnnotations: readonly (readonly [string, string])[];
  readonly status: JsonObject | undefined;
}

/**
 * Reads an answer as strictly as the API server (k8s.io/apiserver/pkg/admission/plugin/webhook/request).
 *
 * @throws Error when it is none: the failure policy decides then
 */
export function verdictOf(
  answer: JsonValue,
  question: Question,
  mutating: boolean,
  parse: (text: string) => JsonValue,
): Verdict {
  const response = isJsonObject(answer) ? ownValue(answer, 'response') : undefined;
  if (question.version === 'v1') checkType(answer);
  if (!isJsonObject(response)) throw new Error('Webhook response was absent');
  const { uid, allowed, patch, patchType, status, warnings, auditAnnotations } = response;
  if (question.version === 'v1' && uid !== question.uid) {
    throw new Error(
      `expected response.uid=${JSON.stringify(question.uid)}, got ${JSON.stringify(textOf(uid))}`,
    );
  }
  const hasPatch = typeof patch === 'string' && patch !== '';
  if (question.version === 'v1') checkPatch(hasPatch, patchType, mutating);
  return {
    allowed: allowed === true,
    ...(hasPatch ? { patch: parse(Buffer.from(patch, 'base64').toString('utf8')) } : {}),
    warnings: isJsonArray(warnings) ? warnings.map(textOf) : [],
    auditAnnotations: isJsonObject(auditAnnotations)
      ? Object.entries(auditAnnotations).map(([key, value]) => [key, textOf(value)] as const)
      : [],
    status: isJsonObject(status) ? status : undefined,
  };
}

function checkType(answer: JsonValue): void {
  const { apiVersion, kind } = isJsonObject(answer) ? answer : {};
  if (apiVersion === 'admission.k8s.io/v1' && kind === 'AdmissionReview') return;
  const [group, version] = textOf(apiVersion).includes('/')
    ? textOf(apiVersion).split('/')
    : ['', apiVersion];
  throw new Error(
    'expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview, ' +
      `got ${textOf(group)}/${textOf(version)}, Kind=${textOf(kind)}`,
  );
}

function checkPatch(hasPatch: boolean, patchType: JsonValue | undefined, mutating: boolean): void {
  const hasType = typeof patchType === 'string' && patchType !== '';
  if (!mutating && (hasPatch || hasType)) {
    throw new Error('webhook response for a validating webhook must not have a patch or a patchType');
  }
  if (hasPatch && !hasType) throw new Error('webhook returned response.patch but not response.patchType');
  if (hasType && !hasPatch) throw new Error('webhook returned response.patchType but not response.patch');
  if (hasType && patchType !== 'JSONPatch') {
    throw new Error(
      `webhook returned invalid response.patchType of ${JSON.stringify(patchType)}, expected 'JSONPatch'`,
    );
  }
}

const textOf = (value: unknown): string => (typeof value === 'string' ? value : '');

/** The refusal that the client gets: what the webhook said, as far as it makes sense for a refusal. */
export function refusalOf(name: string, status: JsonObject | undefined): ApiFailure {
  const deniedBy = `admission webhook ${JSON.stringify(name)} denied the request`;
  const { message, reason, code, details } = status ?? {};
  const said = textOf(message) || textOf(reason);
  return new ApiFailure(
    typeof code === 'number' && code >= 400 ? code : 400,
    textOf(reason),
    said === '' ? `${deniedBy} without explanation` : `${deniedBy}: ${said}`,
    isJsonObject(details) ? details : undefined,
  );
}
