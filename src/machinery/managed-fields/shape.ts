import {
  isJsonArray,
  isJsonObject,
  stringifyJson,
  valueIn,
  type JsonObject,
  type JsonValue,
} from '../../json/json.ts';
import { goTypeOf } from '../patch/json-patch.ts';
import { ANYTHING, property, type Schema } from '../schema/schema.ts';
import { fieldElement, keyElement, showElement, valueElement, type PathElement } from './field-set.ts';

/** How ownership treats a value: as a whole, by field or by item. */
export type Shape = 'leaf' | 'map' | 'list';

export class TypedError extends Error {
  override readonly name = 'TypedError';
}

/** Follows schemaconv of kube-openapi: by default, maps are granular and lists atomic. Null counts as an empty map or list. */
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
export const isNamed = (schema: Schema, name: string): boolean => property(schema, name) !== undefined;

export function childSchema(schema: Schema, name: string): Schema | undefined {
  const { properties, additionalProperties } = schema;
  const own = property(schema, name);
  if (own !== undefined) return own;
  if (typeof additionalProperties === 'object') return additionalProperties;
  if (additionalProperties !== undefined) return additionalProperties ? ANYTHING : undefined;
  const isFree = properties === undefined || Object.keys(properties).length === 0;
  return isFree || schema['x-kubernetes-preserve-unknown-fields'] === true ? ANYTHING : undefined;
}

export const itemSchema = ({ items }: Schema): Schema => items ?? ANYTHING;

/** The path element that identifies this item of an associative list. */
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
  const value = valueIn(item, key) ?? childSchema(itemSchema(schema), key)?.default;
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

/** The reasons why a configuration cannot be merged, as `path: problem` (structured-merge-diff, typed/validate.go). */
export function typeProblems(value: JsonValue, schema: Schema, path = '', free = false): readonly string[] {
  const mismatch = typeMismatch(value, schema);
  if (mismatch !== undefined) return [path === '' ? mismatch : `${path}: ${mismatch}`];
  const keepsAll = free || schema['x-kubernetes-preserve-unknown-fields'] === true;
  if (isJsonArray(value)) return listProblems(value, schema, path, keepsAll);
  if (isJsonObject(value)) {
    return Object.entries(value).flatMap(([name, child]) => {
      const below = path + showElement(fieldElement(name));
      const known = childSchema(schema, name) ?? (keepsAll ? ANYTHING : undefined);
      return known === undefined
        ? [`${below}: field not declared in schema`]
        : typeProblems(child, known, below, keepsAll);
    });
  }
  return [];
}

function listProblems(
  items: readonly JsonValue[],
  schema: Schema,
  path: string,
  free: boolean,
): readonly string[] {
  const isKeyed = shapeOf(items, schema) === 'list';
  const seen = new Set<string>();
  const problems: string[] = [];
  for (const [index, item] of items.entries()) {
    try {
      const element = isKeyed ? itemElement(item, schema) : `i:${index}`;
      if (seen.has(element)) problems.push(`${path}: duplicate entries for key ${showElement(element)}`);
      seen.add(element);
      problems.push(...typeProblems(item, itemSchema(schema), path + showElement(element), free));
    } catch (error) {
      if (!(error instanceof TypedError)) throw error;
      return [...problems, `${path}: element ${index}: ${error.message}`]; // without a key there is no path to descend into
    }
  }
  return problems;
}

function typeMismatch(value: JsonValue, schema: Schema): string | undefined {
  if (value === null || schema.type === undefined) return undefined;
  switch (schema.type) {
    case 'object':
      return isJsonObject(value) ? undefined : `expected map, got &{${shownText(value)}}`;
    case 'array':
      return isJsonArray(value) ? undefined : `expected list, got &{${shownText(value)}}`;
    case 'boolean':
      return typeof value === 'boolean' ? undefined : `expected boolean, got &{${shownText(value)}}`;
    case 'integer':
    case 'number':
      if (typeof value === 'number' || typeof value === 'bigint') return undefined;
      return `expected numeric (int or float), got ${goTypeOf(value)}`;
    case 'string':
      return stringMismatch(value, schema.format);
  }
}

/** For strings with a format, the API server's schema only requires that the value is neither a list nor a map. */
function stringMismatch(value: JsonValue, format: string | undefined): string | undefined {
  if (format !== undefined && format !== 'byte') {
    return typeof value === 'object' ? `expected any scalar, got &{${shownText(value)}}` : undefined;
  }
  if (typeof value === 'string') return undefined;
  return `expected string, got &value.valueUnstructured{Value:${shownText(value)}}`;
}

const shownText = (value: JsonValue): string => (typeof value === 'string' ? value : stringifyJson(value));
