import { isJsonArray, isJsonObject, ownValue, type JsonObject, type JsonValue } from '../../json/json.ts';
import { ANYTHING, type Schema } from '../schema/schema.ts';
import { keyElement, valueElement, type PathElement } from './path-element.ts';

/** How ownership treats a value: as a whole, by field or by item. */
export type Shape = 'leaf' | 'map' | 'list';

/** A value does not have the type that its schema requires. */
export class TypedError extends Error {
  override readonly name = 'TypedError';
}

/**
 * Follows schemaconv of kube-openapi: maps are granular and lists are atomic unless the schema says otherwise. Null
 * counts as an empty map or list if the schema has that type.
 */
export function shapeOf(value: JsonValue, schema: Schema): Shape {
  if (value === null) {
    if (isGranularMap(schema)) return 'map';
    return schema.type === 'array' && isAssociative(schema) ? 'list' : 'leaf';
  }
  if (isJsonArray(value)) return isList(schema) && isAssociative(schema) ? 'list' : 'leaf';
  return isJsonObject(value) && isGranularMap(schema) ? 'map' : 'leaf';
}

const isGranularMap = (schema: Schema) =>
  (schema.type === undefined || schema.type === 'object') && schema['x-kubernetes-map-type'] !== 'atomic';

const isList = ({ type }: Schema) => type === undefined || type === 'array';

function isAssociative(schema: Schema): boolean {
  const listType = schema['x-kubernetes-list-type'];
  if (listType !== undefined) return listType !== 'atomic';
  return schema['x-kubernetes-patch-strategy']?.startsWith('merge') === true;
}

/** Whether the schema makes a map or list atomic. Without a type in the schema, the value decides. */
export const isAtomic = (schema: Schema): boolean =>
  schema.type === 'array' ? !isAssociative(schema) : schema.type === 'object' && !isGranularMap(schema);

/** Whether the schema lists the field by name; it does not list label keys, for example. */
export const isNamed = ({ properties }: Schema, name: string): boolean =>
  properties !== undefined && Object.hasOwn(properties, name);

/** The schema of a field; undefined if the schema does not allow the field. */
export function childSchema(schema: Schema, name: string): Schema | undefined {
  const { properties, additionalProperties } = schema;
  if (properties !== undefined && Object.hasOwn(properties, name)) return properties[name];
  if (typeof additionalProperties === 'object') return additionalProperties;
  if (additionalProperties !== undefined) return additionalProperties ? ANYTHING : undefined;
  const isFree = properties === undefined || Object.keys(properties).length === 0;
  return isFree || schema['x-kubernetes-preserve-unknown-fields'] === true ? ANYTHING : undefined;
}

export const itemSchema = ({ items }: Schema): Schema => items ?? ANYTHING;

/**
 * The path element that identifies this item of an associative list. @throws TypedError if the item lacks its keys
 */
export function itemElement(item: JsonValue, schema: Schema): PathElement {
  const keys = keysOf(schema);
  if (keys.length === 0) return setElement(item);
  if (item === null) throw new TypedError('associative list with keys may not have a null element');
  if (!isJsonObject(item)) throw new TypedError('associative list with keys may not have non-map elements');
  return keyElement(keys.map((key) => [key, keyOf(item, key, schema)]));
}

function keysOf(schema: Schema): readonly string[] {
  if (schema['x-kubernetes-list-type'] === 'map') return schema['x-kubernetes-list-map-keys'] ?? [];
  const mergeKey =
    schema['x-kubernetes-list-type'] === undefined ? schema['x-kubernetes-patch-merge-key'] : undefined;
  return mergeKey === undefined ? [] : [mergeKey];
}

function keyOf(item: JsonObject, key: string, schema: Schema): JsonValue {
  const value = valueAt(item, key) ?? childSchema(itemSchema(schema), key)?.default;
  if (value !== undefined) return value;
  throw new TypedError(
    `associative list with keys has an element that omits key field ${JSON.stringify(key)} (and doesn't have default value)`,
  );
}

function setElement(item: JsonValue): PathElement {
  if (item === null)
    throw new TypedError("associative list without keys has an element that's an explicit null");
  if (isJsonArray(item)) throw new TypedError('not supported: associative list with lists as elements');
  if (isJsonObject(item))
    throw new TypedError("associative list without keys has an element that's a map type");
  return valueElement(item);
}

/** The items of an associative list by path element, in list order. Items with duplicate keys share an entry. */
export function itemsByElement(
  items: readonly JsonValue[],
  schema: Schema,
): ReadonlyMap<PathElement, readonly JsonValue[]> {
  const found = new Map<PathElement, JsonValue[]>();
  for (const [index, item] of items.entries()) {
    const element = elementAt(index, item, schema);
    const others = found.get(element);
    if (others === undefined) found.set(element, [item]);
    else others.push(item);
  }
  return found;
}

function elementAt(index: number, item: JsonValue, schema: Schema): PathElement {
  try {
    return itemElement(item, schema);
  } catch (error) {
    if (!(error instanceof TypedError)) throw error;
    throw new TypedError(`element ${index}: ${error.message}`, { cause: error });
  }
}

/** The value of a field; undefined if the map does not have it. */
export function valueAt(map: JsonObject, name: string): JsonValue | undefined {
  return ownValue(map, name) as JsonValue | undefined; // every field of a JsonObject is JSON
}

/** The value if it is a map, otherwise an empty map. */
export const mapOf = (value: JsonValue | undefined): JsonObject => (isJsonObject(value) ? value : {});

/** The value if it is a list, otherwise an empty list. */
export const listOf = (value: JsonValue | undefined): readonly JsonValue[] =>
  isJsonArray(value) ? value : [];
