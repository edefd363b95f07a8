import { isJsonArray, isJsonObject, ownValue, type JsonObject, type JsonValue } from '../../../json/json.ts';
import { ANYTHING, type Schema } from '../schema/schema.ts';
import { keyElement, valueElement, type PathElement } from './path-element.ts';

/** How ownership sees a value: in one piece, or by its fields or items. */
export type Shape = 'leaf' | 'map' | 'list';

/** A value has not the type that its schema promises. */
export class TypedError extends Error {
  override readonly name = 'TypedError';
}

/**
 * The rules are those of kube-openapi's schemaconv: maps are granular and lists atomic unless the schema says otherwise. Null
 * stands for an empty map or list where the schema has one.
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

/** Whether the schema says of a map or list that it is one piece; a schema without type leaves that to the value. */
export const isAtomic = (schema: Schema): boolean =>
  schema.type === 'array' ? !isAssociative(schema) : schema.type === 'object' && !isGranularMap(schema);

/** Whether the schema lists the field, as it does not the keys of labels. */
export const isNamed = ({ properties }: Schema, name: string): boolean =>
  properties !== undefined && Object.hasOwn(properties, name);

/** The schema of a field; undefined when the object may have no such field. */
export function childSchema(schema: Schema, name: string): Schema | undefined {
  const { properties, additionalProperties } = schema;
  if (properties !== undefined && Object.hasOwn(properties, name)) return properties[name];
  if (typeof additionalProperties === 'object') return additionalProperties;
  if (additionalProperties !== undefined) return additionalProperties ? ANYTHING : undefined;
  const isFree = properties === undefined || Object.keys(properties).length === 0;
  return isFree || schema['x-kubernetes-preserve-unknown-fields'] === true ? ANYTHING : undefined;
}

export const itemSchema = ({ items }: Schema): Schema => items ?? ANYTHING;

/** What tells this item of an associative list from others. @throws TypedError when it lacks its keys */
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

/** The items of an associative list by what tells them apart, in their order; several where they are not told apart. */
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

/** The value of a field; undefined when the map has none. */
export function valueAt(map: JsonObject, name: string): JsonValue | undefined {
  return ownValue(map, name) as JsonValue | undefined; // a JsonObject has nothing else
}

/** The value as a map, empty when it is none. */
export const mapOf = (value: JsonValue | undefined): JsonObject => (isJsonObject(value) ? value : {});

/** The value as a list, empty when it is none. */
export const listOf = (value: JsonValue | undefined): readonly JsonValue[] =>
  isJsonArray(value) ? value : [];
