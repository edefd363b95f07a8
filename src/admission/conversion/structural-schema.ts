/** Looks up paths in the structural schema of a CustomResourceDefinition. */
import type { Segment } from '../../json/field-path.ts';
import { isJsonArray, isJsonObject, ownValue, type JsonObject, type JsonValue } from '../../json/json.ts';

export type SchemaAt =
  | { readonly kind: 'known'; readonly schema: JsonObject }
  /** Any value is valid here. */
  | { readonly kind: 'open' }
  /** The API server drops the value. */
  | { readonly kind: 'unknown' };

const OPEN: SchemaAt = { kind: 'open' };
const UNKNOWN: SchemaAt = { kind: 'unknown' };
const OF_EVERY_OBJECT: ReadonlySet<string> = new Set(['apiVersion', 'kind', 'metadata']);

const PRESERVE = 'x-kubernetes-preserve-unknown-fields';
const preserves = (schema: JsonObject): boolean => ownValue(schema, PRESERVE) === true;
const isEmbedded = (schema: JsonObject): boolean =>
  ownValue(schema, 'x-kubernetes-embedded-resource') === true;

/** @param schema of a whole object; undefined if the API server has no schema and keeps everything */
export function schemaAt(schema: JsonObject | undefined, segments: readonly Segment[]): SchemaAt {
  const [first] = segments;
  if (schema === undefined) return OPEN;
  if (first?.kind === 'field' && OF_EVERY_OBJECT.has(first.name)) return OPEN;
  let at: SchemaAt = { kind: 'known', schema };
  for (const segment of segments) {
    if (at.kind !== 'known') return at;
    at = segment.kind === 'field' ? fieldOf(at.schema, segment.name) : itemOf(at.schema);
  }
  return at;
}

export function fieldOf(schema: JsonObject, name: string): SchemaAt {
  const properties = ownValue(schema, 'properties');
  const property = isJsonObject(properties) ? ownValue(properties, name) : undefined;
  if (isJsonObject(property)) return { kind: 'known', schema: property };
  if (isEmbedded(schema) && OF_EVERY_OBJECT.has(name)) return OPEN;
  const additional = ownValue(schema, 'additionalProperties');
  if (isJsonObject(additional)) return { kind: 'known', schema: additional };
  // For `true`, the API server keeps the values but drops the fields in them.
  if (additional === true) return { kind: 'known', schema: {} };
  return preserves(schema) ? OPEN : UNKNOWN;
}

export function itemOf(schema: JsonObject): SchemaAt {
  const items = ownValue(schema, 'items');
  if (!isJsonObject(items)) return preserves(schema) ? OPEN : { kind: 'known', schema: {} };
  return { kind: 'known', schema: preserves(schema) ? { ...items, [PRESERVE]: true } : items };
}

/**
 * Prunes an object as the API server does for this version. Returns the same object if nothing is dropped, and shares
 * unchanged parts.
 * @see k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning
 */
export function pruneObject(object: JsonObject, schema: JsonObject | undefined): JsonObject {
  return schema === undefined ? object : pruneFields(object, schema, OF_EVERY_OBJECT);
}

const NONE: ReadonlySet<string> = new Set();

/** Nested lists without a schema can be too deep for recursion. */
const DEEPEST = 100;

/**
 * Prunes a value. The recursion is as deep as the schema, which is finite; below the schema, it follows only lists in
 * lists.
 */
export function prune(value: JsonValue, at: SchemaAt, depth = 0): JsonValue {
  if (at.kind !== 'known' || depth > DEEPEST) return value;
  if (isJsonObject(value)) {
    return pruneFields(value, at.schema, isEmbedded(at.schema) ? OF_EVERY_OBJECT : NONE, depth + 1);
  }
  return isJsonArray(value) ? pruneItems(value, itemOf(at.schema), depth + 1) : value;
}

function pruneFields(
  object: JsonObject,
  schema: JsonObject,
  kept: ReadonlySet<string>,
  depth = 0,
): JsonObject {
  let changed = false;
  const entries: [string, JsonValue][] = [];
  for (const [name, value] of Object.entries(object)) {
    const at = kept.has(name) ? OPEN : fieldOf(schema, name);
    const pruned = at.kind === 'unknown' ? undefined : prune(value, at, depth);
    if (pruned !== undefined) entries.push([name, pruned]);
    changed ||= pruned !== value;
  }
  return changed ? Object.fromEntries(entries) : object;
}

function pruneItems(list: readonly JsonValue[], at: SchemaAt, depth: number): JsonValue {
  const pruned = list.map((item) => prune(item, at, depth));
  return pruned.every((item, index) => item === list[index]) ? list : pruned;
}

/** Whether the value has the types of the schema, at every level. Ignores patterns, limits and required fields. */
export function fits(value: JsonValue, at: SchemaAt): boolean {
  if (at.kind === 'unknown') return false;
  if (at.kind === 'open') return true;
  const { schema } = at;
  if (value === null) return ownValue(schema, 'nullable') === true;
  if (!hasType(value, schema)) return false;
  if (isJsonArray(value)) {
    const items = itemOf(schema);
    return value.every((item) => fits(item, items));
  }
  return (
    !isJsonObject(value) || Object.entries(value).every(([name, child]) => fitsField(name, child, schema))
  );
}

/** Accepts fields that the API server drops. */
function fitsField(name: string, value: JsonValue, schema: JsonObject): boolean {
  const at = fieldOf(schema, name);
  return at.kind === 'unknown' || fits(value, at);
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
      return typeof value === 'string';
    case 'boolean':
      return typeof value === 'boolean';
    case 'integer':
      return isInteger;
    case 'number':
      return typeof value === 'number' || typeof value === 'bigint';
    default:
      return true;
  }
}

/** The key fields of the elements of a list; undefined if the schema names none. */
export function listKeysOf(at: SchemaAt): readonly string[] | undefined {
  if (at.kind !== 'known' || ownValue(at.schema, 'x-kubernetes-list-type') !== 'map') return undefined;
  const keys = ownValue(at.schema, 'x-kubernetes-list-map-keys');
  if (!isJsonArray(keys)) return undefined;
  return keys.filter((key) => typeof key === 'string');
}
