/** Looks up paths in the structural schema of a CustomResourceDefinition. */
import type { Segment } from '../../json/field-path.ts';
import {
  isJsonArray,
  isJsonObject,
  listIn,
  objectIn,
  ownValue,
  textIn,
  valueIn,
  type JsonObject,
  type JsonValue,
} from '../../json/json.ts';

export type SchemaAt =
  | { readonly kind: 'known'; readonly schema: JsonObject }
  | { readonly kind: 'open' }
  | { readonly kind: 'unknown' };

export const OPEN: SchemaAt = { kind: 'open' };
const OF_EVERY_OBJECT: ReadonlySet<string> = new Set(['apiVersion', 'kind', 'metadata']);

const PRESERVE = 'x-kubernetes-preserve-unknown-fields';
const preserves = (schema: JsonObject): boolean => ownValue(schema, PRESERVE) === true;
const isEmbedded = (schema: JsonObject): boolean =>
  ownValue(schema, 'x-kubernetes-embedded-resource') === true;

/** @param schema undefined if the API server keeps everything */
export const schemaOf = (schema: JsonObject | undefined): SchemaAt =>
  schema === undefined ? OPEN : { kind: 'known', schema };

export function schemaAt(schema: JsonObject | undefined, segments: readonly Segment[]): SchemaAt {
  const [first] = segments;
  if (first?.kind === 'field' && OF_EVERY_OBJECT.has(first.name)) return OPEN;
  return segments.reduce(
    (at, segment) => (segment.kind === 'field' ? fieldOf(at, segment.name) : itemOf(at)),
    schemaOf(schema),
  );
}

export function fieldOf(at: SchemaAt, name: string): SchemaAt {
  if (at.kind !== 'known') return at;
  const { schema } = at;
  const property = valueIn(schema, 'properties', name);
  if (isJsonObject(property)) return { kind: 'known', schema: property };
  if (isEmbedded(schema) && OF_EVERY_OBJECT.has(name)) return OPEN;
  const additional = ownValue(schema, 'additionalProperties');
  if (isJsonObject(additional)) return { kind: 'known', schema: additional };
  // For `true`, the API server keeps the values but drops the fields in them.
  if (additional === true) return { kind: 'known', schema: {} };
  return preserves(schema) ? OPEN : { kind: 'unknown' };
}

export function itemOf(at: SchemaAt): SchemaAt {
  if (at.kind !== 'known') return at;
  const { schema } = at;
  const items = ownValue(schema, 'items');
  if (!isJsonObject(items)) return preserves(schema) ? OPEN : { kind: 'known', schema: {} };
  return { kind: 'known', schema: preserves(schema) ? { ...items, [PRESERVE]: true } : items };
}

/** Like the API server (apiextensions-apiserver pkg/apiserver/schema/pruning). Shares unchanged parts. */
export const pruneObject = (object: JsonObject, schema: JsonObject | undefined): JsonObject =>
  schema === undefined ? object : pruneFields(object, schemaOf(schema), OF_EVERY_OBJECT);

const NONE: ReadonlySet<string> = new Set();

/** Nested lists without a schema can be too deep for recursion. */
const DEEPEST = 100;

/** The schema limits how deep objects are. Below it, follows only lists in lists. */
export function prune(value: JsonValue, at: SchemaAt, depth = 0): JsonValue {
  if (at.kind !== 'known' || depth > DEEPEST) return value;
  if (isJsonObject(value)) return pruneFields(value, at, isEmbedded(at.schema) ? OF_EVERY_OBJECT : NONE);
  if (!isJsonArray(value)) return value;
  const items = itemOf(at);
  const pruned = value.map((item) => prune(item, items, depth + 1));
  return pruned.every((item, index) => item === value[index]) ? value : pruned;
}

function pruneFields(object: JsonObject, schema: SchemaAt, kept: ReadonlySet<string>): JsonObject {
  let changed = false;
  const entries: [string, JsonValue][] = [];
  for (const [name, value] of Object.entries(object)) {
    const at = kept.has(name) ? OPEN : fieldOf(schema, name);
    const pruned = at.kind === 'unknown' ? undefined : prune(value, at);
    if (pruned !== undefined) entries.push([name, pruned]);
    changed ||= pruned !== value;
  }
  return changed ? Object.fromEntries(entries) : object;
}

/** Whether the value has the types of the schema, at every level. Ignores patterns, limits and required fields. */
export function fits(value: JsonValue, at: SchemaAt): boolean {
  if (at.kind !== 'known') return at.kind === 'open';
  if (value === null) return ownValue(at.schema, 'nullable') === true;
  if (!hasType(value, at.schema)) return false;
  if (isJsonArray(value)) {
    const items = itemOf(at);
    return value.every((item) => fits(item, items));
  }
  if (!isJsonObject(value)) return true;
  return Object.entries(value).every(([name, child]) => {
    const below = fieldOf(at, name);
    return below.kind === 'unknown' || fits(child, below); // the API server drops unknown fields
  });
}

function hasType(value: JsonValue, schema: JsonObject): boolean {
  const isInteger = typeof value === 'bigint' || Number.isInteger(value);
  if (ownValue(schema, 'x-kubernetes-int-or-string') === true) return isInteger || typeof value === 'string';
  switch (ownValue(schema, 'type')) {
    case 'object':
      return isJsonObject(value);
    case 'array':
      return isJsonArray(value);
    case 'string':
    case 'boolean':
      return typeof value === ownValue(schema, 'type');
    case 'integer':
      return isInteger;
    case 'number':
      return isInteger || typeof value === 'number';
    default:
      return true;
  }
}

/** The key fields of the elements of a list; undefined if the schema declares none. */
export function listKeysOf(at: SchemaAt): readonly string[] | undefined {
  if (at.kind !== 'known' || ownValue(at.schema, 'x-kubernetes-list-type') !== 'map') return undefined;
  const keys = ownValue(at.schema, 'x-kubernetes-list-map-keys');
  if (!isJsonArray(keys)) return undefined;
  return keys.filter((key) => typeof key === 'string');
}

/**
 * The fewest fields that the API server accepts: required ones and those with a default. Other values are empty strings.
 * @param withLists also the lists and their parents, each list with one element
 */
export function minimalValue(schema: JsonObject, withLists: boolean): JsonValue {
  const preset = valueIn(schema, 'default');
  if (preset !== undefined && !isJsonObject(preset)) return preset;
  const type = textIn(schema, 'type');
  if (type === 'array') return withLists ? [minimalValue(objectIn(schema, 'items'), true)] : [];
  if (type !== 'object') return listIn(schema, 'enum')[0] ?? '';
  const required = listIn(schema, 'required');
  const fields = Object.entries(objectIn(schema, 'properties')).flatMap(([name, below]) => {
    const isPresent = required.includes(name) || valueIn(below, 'default') !== undefined;
    return isPresent || (withLists && hasList(below))
      ? [[name, minimalValue(objectIn(below), withLists)] as const]
      : [];
  });
  return { ...Object.fromEntries(fields), ...preset };
}

const hasList = (schema: JsonValue): boolean =>
  textIn(schema, 'type') === 'array' || Object.values(objectIn(schema, 'properties')).some(hasList);
