import { isJsonArray, isJsonObject, type JsonObject, type JsonValue } from '../../../json/json.ts';
import { changeFields, changeItems } from '../schema/change-json.ts';
import type { Schema } from '../schema/schema.ts';

/**
 * An object as it is once Go structs have held it: built-in kinds have been, and of custom resources the metadata. Optional lists
 * and maps are left out when they are empty; in metadata, empty text is too. The same reference when that changes nothing.
 *
 * @param schema of the whole object
 */
export function goForm(object: JsonObject, schema: Schema, custom: boolean): JsonObject {
  return changeFields(object, (value, key) => {
    if (key === 'metadata') return isJsonObject(value) ? changeFields(value, keptMetadata) : value;
    return custom ? value : kept(value, key, schema);
  });
}

const isEmpty = (value: JsonValue): boolean =>
  (isJsonArray(value) && value.length === 0) || (isJsonObject(value) && Object.keys(value).length === 0);

/** An empty list of managed fields is a wish: to have none. */
function keptMetadata(value: JsonValue, key: string): JsonValue | undefined {
  if (key === 'managedFields') return value;
  return value === null || value === '' || isEmpty(value) ? undefined : value;
}

/** Fields that are written even when they are empty: those of roles, of endpoint slices and of pods. */
const ALWAYS_WRITTEN = new Set(['addresses', 'containers', 'endpoints', 'rules', 'verbs']);

/** Only lists and maps have no other way to be absent: an empty struct may be a pointer, and an empty text too. */
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
  if (typeof each === 'object') return changeFields(value, (item) => keptBelow(item, each));
  return changeFields(value, (item, key) => kept(item, key, schema));
}
