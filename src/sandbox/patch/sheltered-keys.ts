import { isJsonArray, isJsonObject, type JsonObject, type JsonValue } from '../../json/json.ts';

/**
 * The packages that apply patches were not written for data with any keys: rfc6902 5.4 skips `constructor` and `prototype` in a
 * path and so changes the object around them, sets an object's prototype for `__proto__`, finds `toString` in every object
 * and `length` in every list; json-merge-patch 1.0 leaves out the rest of a patch after such a key. A label may well be
 * called `constructor`. So they get every key with a sign before it that turns it into a key like any other.
 */
const SIGN = '.';

export const shelterKey = (key: string) => `${SIGN}${key}`;

/** A copy, which a library may change. */
export function shelter(value: JsonValue): JsonValue {
  return withKeys(value, shelterKey);
}

/** The inverse of {@link shelter}, once more a copy. */
export function unshelter(value: JsonValue): JsonValue {
  return withKeys(value, (key) => key.slice(SIGN.length));
}

function withKeys(value: JsonValue, rename: (key: string) => string): JsonValue {
  if (isJsonArray(value)) return value.map((item) => withKeys(item, rename));
  if (!isJsonObject(value)) return value;
  return Object.fromEntries(
    Object.entries(value).map(([key, item]) => [rename(key), withKeys(item, rename)]),
  ) satisfies JsonObject;
}
