import {
  isEqual,
  isJsonArray,
  isJsonObject,
  type JsonObject,
  type JsonValue,
  memoizeWeak,
  ownValue,
  stringifyJson,
} from '../../json/json.ts';
import { type ApiObject, ofJson, toJson } from '../api-object.ts';
import { badRequest, invalid } from '../failure.ts';
import { isEmpty } from '../fields.ts';
import { apiVersionOf, type ResourceType } from '../resource-type.ts';
import { invalidValue } from '../schema/causes.ts';
import { applyDefaults } from '../schema/default.ts';
import { OBJECT_META, wholeSchema } from '../schema/object-meta.ts';
import { prune } from '../schema/prune.ts';
import { changeFields, changeItems, type Schema } from '../schema/schema.ts';
import { validateSchema } from '../schema/validate.ts';
import type { Notes } from '../request.ts';
import { schemaProblems } from './validate.ts';

/** Empty if the request does not set it, which means Warn. */
export type FieldValidation = '' | 'Ignore' | 'Warn' | 'Strict';

export function complete(object: ApiObject, type: ResourceType): ApiObject {
  return withDefaults(prune(toJson(object), wholeSchema(type)).value, type);
}

function withDefaults(value: JsonValue, type: ResourceType): ApiObject {
  const object = ofJson(plainDefaults(value, type));
  return type.strategy.completeDefaults?.(object) ?? object;
}

function plainDefaults(value: JsonValue, type: ResourceType): JsonValue {
  const schema = wholeSchema(type);
  return applyDefaults(isJsonObject(value) ? goForm(value, schema, type.custom) : value, schema);
}

/** Checks the type, drops unknown fields, applies defaults. @throws ApiFailure 400, even for unknown fields if they are strict */
export function decodeObject(
  value: unknown,
  type: ResourceType,
  fieldValidation: FieldValidation,
  notes: Notes,
): ApiObject {
  const typed = withType(value, type);
  const schema = wholeSchema(type);
  const { value: known, unknown } = prune(typed, schema);
  reportUnknown(unknown, type, fieldValidation, notes);
  const plain = plainDefaults(known, type);
  if (isJsonObject(plain)) refuseWrongTypes(plain, type);
  return withDefaults(plain, type);
}

const shown = (value: unknown) => (typeof value === 'string' ? value : stringifyJson(value));

/** Reports each unknown field once, as a warning or as an error, depending on `fieldValidation`. */
export function reportUnknown(
  unknown: readonly string[],
  type: ResourceType,
  fieldValidation: FieldValidation,
  notes: Notes,
): void {
  if (unknown.length === 0 || fieldValidation === 'Ignore') return;
  const texts = unknown.map((path) => `unknown field ${JSON.stringify(path)}`);
  if (fieldValidation !== 'Strict') {
    for (const text of texts) notes.warn(text);
    return;
  }
  throw badRequest(`${cannotBeHandled(type)}strict decoding error: ${texts.join(', ')}`);
}

export const cannotBeHandled = ({ kind, version }: ResourceType) =>
  `${kind} in version ${JSON.stringify(version)} cannot be handled as a ${kind}: `;

/** The start of a refusal of a body without a kind. */
export const unrecognized = ({ kind }: ResourceType) =>
  `the object provided is unrecognized (must be of type ${kind}): `;

function withType(value: unknown, type: ResourceType): JsonObject {
  if (!isJsonObject(value)) throw badRequest('the body of the request is not an object');
  const object = value;
  const apiVersion = apiVersionOf(type);
  refuseOtherType(object, type);
  const metadata = ownValue(object, 'metadata');
  if (metadata !== undefined && metadata !== null && !isJsonObject(metadata)) {
    throw badRequest(
      `${cannotBeHandled(type)}json: cannot unmarshal into ObjectMeta: metadata is not an object`,
    );
  }
  return { ...object, apiVersion, kind: type.kind, metadata: isJsonObject(metadata) ? metadata : {} };
}

/** Built-in kinds may omit apiVersion and kind. */
function refuseOtherType(object: JsonObject, type: ResourceType): void {
  const expected = apiVersionOf(type);
  const given = (key: string, otherwise: string) => {
    const value = shown(ownValue(object, key) ?? '');
    return value === '' && !type.custom ? otherwise : value;
  };
  const apiVersion = given('apiVersion', expected);
  const kind = given('kind', type.kind);
  if (kind === '' && type.custom) {
    throw badRequest(`${unrecognized(type)}Object 'Kind' is missing in '${stringifyJson(object)}'`);
  }
  if (apiVersion === expected && kind === type.kind) return;
  if (!type.custom) {
    const version = JSON.stringify(apiVersion.slice(apiVersion.indexOf('/') + 1));
    throw badRequest(
      `${kind} in version ${version} cannot be handled as a ${type.kind}: ` +
        `no kind ${JSON.stringify(kind)} is registered for version ${JSON.stringify(apiVersion)} in scheme`,
    );
  }
  if (apiVersion !== expected) {
    throw badRequest(
      `the API version in the data (${apiVersion}) does not match the expected API version (${expected})`,
    );
  }
  const metadata = ownValue(object, 'metadata');
  const name = isJsonObject(metadata) ? ownValue(metadata, 'name') : undefined;
  throw invalid({ group: type.group, kind }, typeof name === 'string' ? name : '', [
    invalidValue('kind', kind, `must be ${type.kind}`),
  ]);
}

const METADATA_ALONE: Schema = { type: 'object', properties: { metadata: OBJECT_META } };

/** Go decodes built-in kinds, and metadata of custom resources, into structs: wrong types fail before validation. */
function refuseWrongTypes(object: JsonObject, type: ResourceType): void {
  const problems = type.custom
    ? validateSchema({ metadata: object.metadata ?? {} }, METADATA_ALONE)
    : schemaProblems(object, type);
  const wrong = problems.find(({ reason }) => reason === 'FieldValueTypeInvalid');
  if (wrong === undefined) return;
  throw badRequest(`${cannotBeHandled(type)}json: cannot unmarshal field ${wrong.field}: ${wrong.message}`);
}

/** Applies a custom resource's current schema: drops unknown fields and applies defaults. Memoised, because most reads repeat. */
export function createDefinedView(): (object: ApiObject, type: ResourceType) => ApiObject {
  const viewsOf = memoizeWeak((type: ResourceType) =>
    memoizeWeak((object: ApiObject) => viewOf(object, type)),
  );
  return (object, type) => viewsOf(type)(object);
}

function viewOf(object: ApiObject, type: ResourceType): ApiObject {
  const view = complete(object, type);
  return isEqual(toJson(view), toJson(object)) ? object : view;
}

/** A round trip through Go structs, for built-in kinds and metadata of custom resources. Shares what does not change. */
function goForm(object: JsonObject, schema: Schema, custom: boolean): JsonObject {
  return changeFields(object, (value, key) => {
    if (key === 'metadata') return isJsonObject(value) ? changeFields(value, keptMetadata) : value;
    return custom ? value : kept(value, key, schema);
  });
}

/** An empty list of managed fields stays, because it asks to clear them. */
function keptMetadata(value: JsonValue, key: string): JsonValue | undefined {
  if (key === 'managedFields') return value;
  return value === null || value === '' || isEmpty(value) ? undefined : value;
}

/** Fields that Go writes even if empty: in roles, endpoint slices and pods. */
const ALWAYS_WRITTEN = new Set(['addresses', 'containers', 'endpoints', 'rules', 'verbs']);

/** Only lists and maps are dropped: an empty struct or string may be a pointer in Go. */
function kept(value: JsonValue, key: string, { properties = {} }: Schema): JsonValue | undefined {
  const schema = Object.hasOwn(properties, key) ? properties[key] : undefined;
  if (schema === undefined) return value;
  const isCollection = schema.type === 'array' || schema.additionalProperties !== undefined;
  if (isCollection && isEmpty(value) && !ALWAYS_WRITTEN.has(key)) return undefined;
  return keptBelow(value, schema);
}

function keptBelow(value: JsonValue, schema: Schema): JsonValue {
  const { items, additionalProperties: each } = schema;
  if (isJsonArray(value))
    return items === undefined ? value : changeItems(value, (item) => keptBelow(item, items));
  if (!isJsonObject(value)) return value;
  // In a map of texts, Go reads null as an empty text.
  if (typeof each === 'object')
    return changeFields(value, (item) =>
      item === null && each.type === 'string' ? '' : keptBelow(item, each),
    );
  return changeFields(value, (item, key) => kept(item, key, schema));
}
