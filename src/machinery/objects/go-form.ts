import { isJsonArray, isJsonObject, type JsonObject, type JsonValue } from '../../json/json.ts';
import { changeFields, changeItems } from '../schema/change-json.ts';
import type { Schema } from '../schema/schema.ts';

/**
 * An object after a round trip through Go structs, which applies to built-in kinds and to the metadata of custom
 * resources. Empty optional lists and maps are dropped; in metadata, empty strings too. Returns the same reference if
 * nothing changes.
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
