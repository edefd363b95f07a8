import {
  isJsonArray,
  isJsonObject,
  type JsonArray,
  type JsonObject,
  type JsonValue,
} from '../../../json/json.ts';
import type { Cause } from '../failure.ts';
import { canonicalJson, duplicateValue, invalidValue } from './causes.ts';
import { type Schema, anywhere, furtherSchema, property } from './schema.ts';

/**
 * Duplicate items in lists of type set, and duplicate keys in lists of type map. Follows
 * k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype.
 *
 * Lists with a patch strategy belong to built-in kinds. Their list type only guides merging, and duplicates are
 * allowed.
 */
export function duplicateItems(value: JsonValue, schema: Schema, path = ''): readonly Cause[] {
  if (!hasUniqueLists(schema)) return [];
  if (isJsonArray(value)) return inList(value, schema, path);
  return isJsonObject(value) ? inFields(value, schema, path) : [];
}

function inFields(object: JsonObject, schema: Schema, path: string): readonly Cause[] {
  const further = furtherSchema(schema);
  return Object.entries(object).flatMap(([key, value]) => {
    const own = property(schema, key);
    if (own !== undefined) return duplicateItems(value, own, path === '' ? key : `${path}.${key}`);
    return further === undefined ? [] : duplicateItems(value, further, `${path}[${key}]`);
  });
}

function inList(list: JsonArray, schema: Schema, path: string): readonly Cause[] {
  const { items } = schema;
  const below =
    items === undefined
      ? []
      : list.flatMap((item, index) => duplicateItems(item, items, `${path}[${index}]`));
  return [...ofThisList(list, schema, path), ...below];
}

function ofThisList(list: JsonArray, schema: Schema, path: string): readonly Cause[] {
  if (!isUnique(schema)) return [];
  if (schema['x-kubernetes-list-type'] === 'set') return repeated(list, path);
  const odd = list.findIndex((item) => item !== null && !isJsonObject(item));
  if (odd >= 0) {
    const detail = 'must be an object for an array of list-type map';
    return [invalidValue(`${path}[${odd}]`, list[odd] ?? null, detail)];
  }
  const names = schema['x-kubernetes-list-map-keys'] ?? [];
  return repeated(
    list.map((item) => keysOf(item, names)),
    path,
  );
}

const keysOf = (item: JsonValue, names: readonly string[]): JsonObject =>
  isJsonObject(item) ? Object.fromEntries(Object.entries(item).filter(([name]) => names.includes(name))) : {};

/** Reports the second of several equal values, but no further ones. */
function repeated(values: readonly JsonValue[], path: string): readonly Cause[] {
  const seen = new Map<string, number>();
  return values.flatMap((value, index) => {
    const text = canonicalJson(value);
    const times = (seen.get(text) ?? 0) + 1;
    seen.set(text, times);
    return times === 2 ? [duplicateValue(`${path}[${index}]`, value)] : [];
  });
}

const isUnique = (schema: Schema) =>
  (schema['x-kubernetes-list-type'] === 'set' || schema['x-kubernetes-list-type'] === 'map') &&
  schema['x-kubernetes-patch-strategy'] === undefined;

const hasUniqueLists = anywhere(isUnique);
