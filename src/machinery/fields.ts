import {
  isJsonObject,
  listIn,
  objectIn,
  ownValue,
  textIn,
  type JsonObject,
  type JsonValue,
} from '../json/json.ts';
import { toJson, type ApiObject } from './api-object.ts';

// Like decoding in Go: an absent or null field becomes the type's empty value.

export function record(parent: object, key: string): JsonObject | undefined {
  const value = ownValue(parent, key);
  return isJsonObject(value) ? value : undefined;
}

export const text: (parent: object, key: string) => string = textIn;

export function optionalText(parent: object, key: string): string | undefined {
  const value = ownValue(parent, key);
  return typeof value === 'string' ? value : undefined;
}

export const flag = (parent: object, key: string): boolean => ownValue(parent, key) === true;

export const items: (parent: object, key: string) => readonly JsonValue[] = listIn;

export const records = (parent: object, key: string): readonly JsonObject[] =>
  items(parent, key).filter(isJsonObject);

export const texts = (parent: object, key: string): readonly string[] =>
  items(parent, key).filter((item) => typeof item === 'string');

export const section: (object: ApiObject | JsonObject, ...path: readonly string[]) => JsonObject = objectIn;

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

export const isEmpty = (found: JsonValue): boolean =>
  typeof found === 'object' && found !== null && Object.keys(found).length === 0;

export function stringMap(parent: object, key: string): Readonly<Record<string, string>> {
  const found = ownValue(parent, key);
  if (!isJsonObject(found)) return {};
  const entries = Object.entries(found).filter(
    (entry): entry is [string, string] => typeof entry[1] === 'string',
  );
  return Object.fromEntries(entries);
}

type Changes = Readonly<Record<string, JsonValue | undefined>>;

/** The object with some fields changed; undefined removes a field. */
export function changed(object: JsonObject, changes: Changes): JsonObject {
  const merged: Record<string, JsonValue | undefined> = { ...object, ...changes };
  return Object.fromEntries(
    Object.entries(merged).filter((entry): entry is [string, JsonValue] => entry[1] !== undefined),
  );
}

export const withFields = (object: ApiObject, changes: Changes): ApiObject =>
  changed(toJson(object), changes) as unknown as ApiObject; // apiVersion, kind and metadata are unchanged
