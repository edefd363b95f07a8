import { isEqual, isJsonArray, isJsonObject, type JsonObject, type JsonValue } from '../../json/json.ts';
import type { Schema } from './schema.ts';

/** What a field was before; undefined when it was absent, or cannot be told because the map is atomic. */
export function oldField(schema: Schema, old: JsonValue | undefined, key: string): JsonValue | undefined {
  if (!isJsonObject(old) || schema['x-kubernetes-map-type'] === 'atomic') return undefined;
  return Object.hasOwn(old, key) ? old[key] : undefined;
}

/** What an item of a list was before: only lists of type map have items that can be told apart. */
export function oldItem(schema: Schema, old: JsonValue | undefined, item: JsonValue): JsonValue | undefined {
  const keys = schema['x-kubernetes-list-map-keys'] ?? [];
  if (schema['x-kubernetes-list-type'] !== 'map' || !isJsonArray(old) || !isJsonObject(item))
    return undefined;
  return old.find((candidate) => isJsonObject(candidate) && haveEqualKeys(candidate, item, keys));
}

const haveEqualKeys = (left: JsonObject, right: JsonObject, keys: readonly string[]) =>
  keys.every((key) => isEqual(keyOf(left, key), keyOf(right, key)));

const keyOf = (item: JsonObject, key: string) => (Object.hasOwn(item, key) ? item[key] : undefined);
