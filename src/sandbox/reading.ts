import { isJsonArray, isJsonObject, ownValue, type JsonObject } from '../json/json.ts';

// The API server decodes what it is sent into structs, where what is absent or null is the type's empty value. These do the same.

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
