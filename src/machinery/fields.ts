import { isJsonArray, isJsonObject, ownValue, type JsonObject, type JsonValue } from '../json/json.ts';
import { toJson, type ApiObject } from './api-object.ts';

// The API server decodes JSON into structs: an absent or null field becomes the type's empty value. These
// functions do the same.

export function record(parent: object, key: string): JsonObject | undefined {
  const value = ownValue(parent, key);
  return isJsonObject(value) ? value : undefined;
}

export function text(parent: object, key: string): string {
  const value = ownValue(parent, key);
  return typeof value === 'string' ? value : '';
}

export function optionalText(parent: object, key: string): string | undefined {
  const value = ownValue(parent, key);
  return typeof value === 'string' ? value : undefined;
}

export function flag(parent: object, key: string): boolean {
  return ownValue(parent, key) === true;
}

export function records(parent: object, key: string): readonly JsonObject[] {
  const value = ownValue(parent, key);
  return isJsonArray(value) ? value.filter(isJsonObject) : [];
}

export function texts(parent: object, key: string): readonly string[] {
  const value = ownValue(parent, key);
  return isJsonArray(value) ? value.filter((item) => typeof item === 'string') : [];
}

const EMPTY: JsonObject = {};

/** The object at this path; an empty object if there is none. */
export function section(object: ApiObject | JsonObject, ...path: readonly string[]): JsonObject {
  return path.reduce<JsonObject>((parent, key) => record(parent, key) ?? EMPTY, object as JsonObject); // both are JSON
}

export const spec = (object: ApiObject): JsonObject => section(object, 'spec');
export const status = (object: ApiObject): JsonObject => section(object, 'status');

/** The value of a field of any type. Null counts as absent, as in Go. */
export function value(parent: object, key: string): JsonValue | undefined {
  const found = ownValue(parent, key) as JsonValue | undefined; // a field of JSON is JSON
  return found === null ? undefined : found;
}

export const has = (parent: object, key: string): boolean => value(parent, key) !== undefined;

export function number(parent: object, key: string): number | undefined {
  const found = ownValue(parent, key);
  return typeof found === 'number' ? found : undefined;
}

/** The items of a list; empty if the field is not a list. */
export function items(parent: object, key: string): readonly JsonValue[] {
  const found = ownValue(parent, key);
  return isJsonArray(found) ? found : [];
}

/** The entries whose values are strings, e.g. labels or the data of a ConfigMap. */
export function stringMap(parent: object, key: string): Readonly<Record<string, string>> {
  const found = ownValue(parent, key);
  if (!isJsonObject(found)) return {};
  const entries = Object.entries(found).filter(
    (entry): entry is [string, string] => typeof entry[1] === 'string',
  );
  return Object.fromEntries(entries);
}

/** The object with some top-level fields changed; undefined removes a field. */
export function withFields(
  object: ApiObject,
  changes: Readonly<Record<string, JsonValue | undefined>>,
): ApiObject {
  const merged: Record<string, JsonValue | undefined> = { ...toJson(object), ...changes };
  const present = Object.entries(merged).filter(([, changed]) => changed !== undefined);
  return Object.fromEntries(present) as unknown as ApiObject; // apiVersion, kind and metadata are unchanged
}

/** The same for plain JSON. */
export function changed(
  object: JsonObject,
  changes: Readonly<Record<string, JsonValue | undefined>>,
): JsonObject {
  const merged: Record<string, JsonValue | undefined> = { ...object, ...changes };
  return Object.fromEntries(
    Object.entries(merged).filter((entry): entry is [string, JsonValue] => entry[1] !== undefined),
  );
}
