import { placeOf } from '../../machinery/storage/stored.ts';
import { isJsonObject, stringifyJson, type JsonObject, type JsonValue } from '../../json/json.ts';
import { ofJson, toJson, withMeta, type ApiObject, timestamp } from '../../machinery/api-object.ts';
import { parseBody } from '../http/content-type.ts';
import { ApiFailure, badRequest, conflict, invalid, unsupportedMediaType } from '../../machinery/failure.ts';
import { applyConfiguration } from '../../machinery/managed-fields/apply.ts';
import { showGo } from '../../machinery/patch/go-types.ts';
import { applyJsonPatch } from '../../machinery/patch/json-patch.ts';
import { applyMergePatch } from '../../machinery/patch/merge-patch.ts';
import { applyStrategicPatch } from '../../machinery/patch/strategic-merge-patch.ts';
import { text } from '../../machinery/fields.ts';
import type { ResourceRequest } from '../../machinery/request.ts';
import { apiVersionOf, type ResourceType } from '../../machinery/resource-type.ts';
import { invalidValue } from '../../machinery/schema/causes.ts';
import { wholeSchema } from '../../machinery/schema/object-meta.ts';
import { objectAnswer, type Answer } from './answer.ts';
import { cannotBeHandled, complete, decodeObject, unrecognized } from '../../machinery/objects/decode.ts';
import type { Api, ApiRequest } from './context.ts';
import { createInstead, inNamespace, managerOf } from './create.ts';
import { writeOptionsOf, type WriteOptions } from './options.ts';
import { resetFields } from '../../machinery/objects/subresources.ts';
import { change, refuseOtherName } from './update.ts';

const JSON_PATCH = 'application/json-patch+json';
const MERGE_PATCH = 'application/merge-patch+json';
const STRATEGIC_PATCH = 'application/strategic-merge-patch+json';
const APPLY_PATCH = 'application/apply-patch+yaml';

/** PATCH of an object or of its status, in all four patch formats. */
export async function patch(
  api: Api,
  request: ApiRequest,
  info: ResourceRequest,
  type: ResourceType,
): Promise<Answer> {
  const language = languageOf(request.contentType, type);
  const options = writeOptionsOf(request.query, 'PatchOptions', language === APPLY_PATCH);
  const body = patchBody(request, language);
  if (language === APPLY_PATCH) return await serverSideApply(api, request, info, type, options, body);

  const object = await change(api, request, info, type, {
    options,
    recorded: false,
    uid: '',
    wanted: (live) => {
      const patched = patchedWith(language, toJson(live), body, type);
      const shown = () => (language === STRATEGIC_PATCH ? showGo(body) : stringifyJson(patched));
      return decodePatched(patched, shown, request, info, type, options);
    },
  });
  return objectAnswer(type, object);
}

function patchBody({ body }: ApiRequest, language: string): JsonValue {
  if (language === APPLY_PATCH) {
    // The audit needs JSON. What begins as JSON passes for it there, and fails when it is decoded.
    const looksLikeJson = Buffer.from(body).toString().trimStart().startsWith('{');
    return parseBody(body, 'application/yaml', (problem) =>
      looksLikeJson
        ? `error decoding patch: error converting YAML to JSON: ${problem}`
        : `error encoding patch: ${problem}`,
    );
  }
  return parseBody(body, 'application/json', () => 'invalid JSON patch');
}

function languageOf(contentType: string | undefined, type: ResourceType): string {
  const language = (contentType ?? '').split(';', 1)[0]?.trim().toLowerCase() ?? '';
  const known = [JSON_PATCH, MERGE_PATCH, ...(type.custom ? [] : [STRATEGIC_PATCH]), APPLY_PATCH];
  if (known.includes(language)) return language;
  // For built-in kinds the router rejects the request, without a list of accepted types.
  if (!type.custom) throw unsupportedMediaType('415: Unsupported Media Type', {});
  throw unsupportedMediaType(
    `the body of the request was in an unknown format - accepted media types include: ${known.join(', ')}`,
  );
}

function patchedWith(language: string, live: JsonObject, body: JsonValue, type: ResourceType): JsonObject {
  if (language === JSON_PATCH) return applyJsonPatch(live, body);
  return language === MERGE_PATCH
    ? applyMergePatch(live, body)
    : applyStrategicPatch(live, body, wholeSchema(type));
}

function decodePatched(
  patched: JsonObject,
  shown: () => string,
  request: ApiRequest,
  info: ResourceRequest,
  type: ResourceType,
  { fieldValidation }: WriteOptions,
): ApiObject {
  if (type.custom) refuseMoved(patched, info.name, type);
  let decoded: ApiObject;
  try {
    decoded = decodeObject(patched, type, fieldValidation, request.notes);
  } catch (error) {
    throw error instanceof ApiFailure && error.status.reason === 'BadRequest'
      ? notPatchable(error, shown(), type)
      : error;
  }
  const object = inNamespace(decoded, info.namespace, type);
  refuseOtherName(object, info.name);
  return object;
}

/** @throws ApiFailure 422 if a patch changes the apiVersion of a custom resource, which validation detects */
function refuseMoved(patched: JsonObject, name: string, type: ResourceType): void {
  const [version, expected] = [text(patched, 'apiVersion'), apiVersionOf(type)];
  if (version === expected) return;
  throw invalid(type, name, [invalidValue('apiVersion', version, `must be ${expected}`)]);
}

/** The result of the patch is invalid, not the patch, so the error is not a bad request. */
function notPatchable({ message }: ApiFailure, shown: string, type: ResourceType): ApiFailure {
  const prefix = [cannotBeHandled(type), unrecognized(type)].find((words) => message.startsWith(words)) ?? '';
  const why = message.slice(prefix.length);
  const cause = invalidValue('patch', shown, why);
  return new ApiFailure(422, 'Invalid', ` "" is invalid: patch: ${cause.message}`, { causes: [cause] });
}

async function serverSideApply(
  api: Api,
  request: ApiRequest,
  info: ResourceRequest,
  type: ResourceType,
  options: WriteOptions,
  body: JsonValue,
): Promise<Answer> {
  const applied = configurationOf(body, request, info, type);
  const applyTo = (live: ApiObject | undefined) =>
    complete(
      applyConfiguration({
        live,
        applied,
        manager: managerOf(options, request),
        force: options.force,
        apiVersion: apiVersionOf(type),
        subresource: info.subresource,
        schema: wholeSchema(type),
        reset: resetFields(type, info.subresource),
        now: timestamp(api.now()),
      }).object,
      type,
    );
  const key = { namespace: info.namespace, name: info.name };
  if (info.subresource === '' && api.storage.get(placeOf(type), key) === undefined) {
    const { uid } = applied.metadata;
    if (uid !== undefined) {
      throw conflict(
        type,
        info.name,
        `uid mismatch: the provided object specified uid ${uid}, and no existing object was found`,
      );
    }
    return objectAnswer(
      type,
      await createInstead(api, request, info, type, applyTo(undefined), options),
      201,
    );
  }
  const object = await change(api, request, info, type, {
    options,
    recorded: true,
    uid: '',
    wanted: (live) => {
      const { resourceVersion } = applied.metadata;
      const next = applyTo(live);
      return resourceVersion === undefined ? next : withMeta(next, { resourceVersion });
    },
  });
  return objectAnswer(type, object);
}

/** A configuration must contain its type and name, because nothing is taken from the path. */
function refuseOtherType(body: JsonObject, type: ResourceType): void {
  const [version, kind] = [text(body, 'apiVersion'), text(body, 'kind')];
  if (version === apiVersionOf(type) && kind === type.kind) return;
  const named = version.includes('/') ? version : `/${version}`;
  throw badRequest(`invalid object type: ${named}, Kind=${kind}`);
}

/** The applied configuration without defaults, which the client did not set. */
function configurationOf(
  body: JsonValue,
  request: ApiRequest,
  info: ResourceRequest,
  type: ResourceType,
): ApiObject {
  if (!isJsonObject(body)) throw badRequest('the body of the request is not an object');
  refuseOtherType(body, type);
  const decoded = decodeObject(body, type, 'Ignore', request.notes); // only for its errors; apply reports unknown fields itself
  const { name = info.name } = decoded.metadata;
  if (name !== info.name) {
    throw badRequest(`the name of the object (${name}) does not match the name on the URL (${info.name})`);
  }
  inNamespace(decoded, info.namespace, type);
  const given = ofJson({ ...body, metadata: isJsonObject(body.metadata) ? body.metadata : {} });
  return withMeta(given, {
    name: info.name,
    namespace: type.namespaced ? info.namespace : undefined,
  });
}
