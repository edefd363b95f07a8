import { isJsonObject, ownValue, type JsonObject, type JsonValue } from '../../admission/json.ts';
import { ofJson, toJson, withMeta, type ApiObject } from '../api-object.ts';
import { parseBody } from '../content-type.ts';
import { badRequest, unsupportedMediaType } from '../failure.ts';
import { applyConfiguration } from '../managed-fields/apply.ts';
import { applyJsonPatch } from '../patch/json-patch.ts';
import { applyMergePatch } from '../patch/merge-patch.ts';
import { applyStrategicPatch } from '../patch/strategic-merge-patch.ts';
import type { ResourceRequest } from '../request.ts';
import { apiVersionOf, type ResourceType } from '../resource-type.ts';
import { wholeSchema } from '../schema/object-meta.ts';
import { objectAnswer, type Answer } from './answer.ts';
import { complete, decodeObject } from './complete.ts';
import { placeOf, timestamp, type Api, type ApiRequest } from './context.ts';
import { createObject, inNamespace, managerOf } from './create.ts';
import { writeOptionsOf, type WriteOptions } from './options.ts';
import { change } from './update.ts';

const JSON_PATCH = 'application/json-patch+json';
const MERGE_PATCH = 'application/merge-patch+json';
const STRATEGIC_PATCH = 'application/strategic-merge-patch+json';
const APPLY_PATCH = 'application/apply-patch+yaml';

/** PATCH of an object or of its status, in the four languages of patches. */
export async function patch(
  api: Api,
  request: ApiRequest,
  info: ResourceRequest,
  type: ResourceType,
): Promise<Answer> {
  const language = languageOf(request.contentType, type);
  const options = writeOptionsOf(request.query, 'PatchOptions', language === APPLY_PATCH);
  const body = parseBody(request.body, language === APPLY_PATCH ? 'application/yaml' : 'application/json');
  if (language === APPLY_PATCH) return await serverSideApply(api, request, info, type, options, body);

  const object = await change(api, request, info, type, {
    options,
    optionsKind: 'PatchOptions',
    recorded: false,
    unconditional: true,
    wanted: (live) => {
      const patched = patchedWith(language, toJson(live), body, type);
      return decodePatched(patched, request, info, type, options);
    },
  });
  return objectAnswer(type, object);
}

function languageOf(contentType: string | undefined, type: ResourceType): string {
  const language = (contentType ?? '').split(';', 1)[0]?.trim().toLowerCase() ?? '';
  const known = [JSON_PATCH, MERGE_PATCH, ...(type.custom ? [] : [STRATEGIC_PATCH]), APPLY_PATCH];
  if (known.includes(language)) return language;
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
  request: ApiRequest,
  info: ResourceRequest,
  type: ResourceType,
  { fieldValidation }: WriteOptions,
): ApiObject {
  const object = inNamespace(
    decodeObject(patched, type, fieldValidation, request.notes),
    info.namespace,
    type,
  );
  const { name = '' } = object.metadata;
  if (name !== info.name) {
    throw badRequest(`the name of the object (${name}) does not match the name on the URL (${info.name})`);
  }
  return object;
}

async function serverSideApply(
  api: Api,
  request: ApiRequest,
  info: ResourceRequest,
  type: ResourceType,
  options: WriteOptions,
  body: JsonValue,
): Promise<Answer> {
  const applied = configurationOf(body, request, info, type, options);
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
        now: timestamp(api.now()),
      }).object,
      type,
    );
  const key = { namespace: info.namespace, name: info.name };
  if (info.subresource === '' && api.storage.get(placeOf(type), key) === undefined) {
    return objectAnswer(type, await createObject(api, request, type, applyTo(undefined), options), 201);
  }
  const object = await change(api, request, info, type, {
    options,
    optionsKind: 'PatchOptions',
    recorded: true,
    unconditional: true,
    wanted: (live) => {
      const { resourceVersion } = applied.metadata;
      const next = applyTo(live);
      return resourceVersion === undefined ? next : withMeta(next, { resourceVersion });
    },
  });
  return objectAnswer(type, object);
}

/** What is applied, without defaults: those are nobody's wish. */
function configurationOf(
  body: JsonValue,
  request: ApiRequest,
  info: ResourceRequest,
  type: ResourceType,
  { fieldValidation }: WriteOptions,
): ApiObject {
  if (!isJsonObject(body)) throw badRequest('the body of the request is not an object');
  for (const name of ['apiVersion', 'kind']) {
    if (ownValue(body, name) === undefined) {
      throw badRequest(`error decoding YAML: Object '${name === 'kind' ? 'Kind' : 'apiVersion'}' is missing`);
    }
  }
  const decoded = decodeObject(body, type, fieldValidation, request.notes); // for its complaints alone
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
