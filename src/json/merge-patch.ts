import { isJsonObject, type JsonObject, type JsonValue } from './json.ts';

/** JSON Merge Patch (RFC 7386). Does not change `object`. Keys such as `__proto__` are plain data. */
export function mergeInto(object: JsonObject, patch: JsonObject): JsonObject {
  const entries = new Map(Object.entries(object));
  for (const [key, change] of Object.entries(patch)) {
    if (change === null) entries.delete(key);
    else entries.set(key, merge(entries.get(key), change));
  }
  return Object.fromEntries(entries);
}

function merge(before: JsonValue | undefined, change: JsonValue): JsonValue {
  if (!isJsonObject(change)) return change;
  return mergeInto(isJsonObject(before) ? before : {}, change);
}
