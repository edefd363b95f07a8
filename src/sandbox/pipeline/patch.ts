import { placeOf } from '../../machinery/storage/stored.ts';
import { isJsonObject, stringifyJson, type JsonObject, type JsonValue } from '../../json/json.ts';
import { ofJson, toJson, withMeta, type ApiObject } from '../../machinery/api-object.ts';
import { mediaTypeIn, parseBody, unknownFormat } from '../http/content-type.ts';
import { ApiFailure, badRequest, conflict, invalid, unsupportedMediaType } from '../../machinery/failure.ts';
import { applyConfiguration } from '../../machinery/managed-fields/apply.ts';
import { showGo, applyJsonPatch, applyMergePatch } from '../../machinery/patch/json-patch.ts';
import { applyStrategicPatch } from '../../machinery/patch/strategic-merge-patch.ts';
import { text } from '../../machinery/fields.ts';
import { apiVersionOf, type ResourceType } from '../../machinery/resource-type.ts';
import { invalidValue } from '../../machinery/schema/causes.ts';
import { wholeSchema } from '../../machinery/schema/object-meta.ts';
import { cannotBeHandled, complete, decodeObject, unrecognized } from '../../machinery/objects/decode.ts';
import { inNamespace, objectAnswer, type Answer, type ApiRequest, type Call } from './context.ts';
import { createInstead, recorded, writerOf } from './create.ts';
import { writeOptionsOf, type WriteOptions } from './options.ts';
import { change, refuseOtherName } from './update.ts';

const JSON_PATCH = 'application/json-patch+json';
const MERGE_PATCH = 'application/merge-patch+json';
const STRATEGIC_PATCH = 'application/strategic-merge-patch+json';
const APPLY_PATCH = 'application/apply-patch+yaml';

/** PATCH of an object or of its status, in all four patch formats. */
export async function patch(call: Call): Promise<Answer> {
  const { request, type } = call;
  const language = languageOf(request.contentType, type);
  const options = writeOptionsOf(request.query, 'PatchOptions', language === APPLY_PATCH);
  const body = patchBody(request, language);
  if (language === APPLY_PATCH) return await serverSideApply(call, options, body);

  const object = await change(call, {
    options,
    wanted: (live) => {
      const patched = patchedWith(language, toJson(live), body, type);
      const shown = () => (language === STRATEGIC_PATCH ? showGo(body) : stringifyJson(patched));
      return recorded(call, options, decodePatched(call, patched, shown, options), live);
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
  const language = mediaTypeIn(contentType);
  const known = [JSON_PATCH, MERGE_PATCH, ...(type.custom ? [] : [STRATEGIC_PATCH]), APPLY_PATCH];
  if (known.includes(language)) return language;
  // For built-in kinds the router rejects the request, without a list of accepted types.
  if (!type.custom) throw unsupportedMediaType('415: Unsupported Media Type', {});
  throw unknownFormat(known);
}

function patchedWith(language: string, live: JsonObject, body: JsonValue, type: ResourceType): JsonObject {
  if (language === JSON_PATCH) return applyJsonPatch(live, body);
  return language === MERGE_PATCH
    ? applyMergePatch(live, body)
    : applyStrategicPatch(live, body, wholeSchema(type));
}

function decodePatched(
  { request, info, type }: Call,
  patched: JsonObject,
  shown: () => string,
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

async function serverSideApply(call: Call, options: WriteOptions, body: JsonValue): Promise<Answer> {
  const { api, info, type } = call;
  const applied = configurationOf(call, body);
  const { uid, resourceVersion } = applied.metadata;
  const applyTo = (live: ApiObject | undefined): ApiObject => {
    const writer = writerOf(call, options);
    return complete(applyConfiguration({ ...writer, live, applied, force: options.force }).object, type);
  };
  if (info.subresource === '' && api.storage.get(placeOf(type), info) === undefined) {
    if (uid !== undefined) {
      throw conflict(
        type,
        info.name,
        `uid mismatch: the provided object specified uid ${uid}, and no existing object was found`,
      );
    }
    return await createInstead(call, applyTo(undefined), options);
  }
  const object = await change(call, {
    options,
    wanted: (live) => {
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
function configurationOf({ request, info, type }: Call, body: JsonValue): ApiObject {
  if (!isJsonObject(body)) throw badRequest('the body of the request is not an object');
  refuseOtherType(body, type);
  const decoded = decodeObject(body, type, 'Ignore', request.notes); // only for its errors; apply reports unknown fields itself
  if (decoded.metadata.name !== undefined) refuseOtherName(decoded, info.name);
  inNamespace(decoded, info.namespace, type);
  const given = ofJson({ ...body, metadata: isJsonObject(body.metadata) ? body.metadata : {} });
  return withMeta(given, {
    name: info.name,
    namespace: type.namespaced ? info.namespace : undefined,
  });
}
