import { isJsonObject, type JsonObject, type JsonValue } from './json.ts';

/**
 * The object with a JSON merge patch applied (RFC 7386): null removes, objects merge, everything else replaces. The object itself
 * stays as it is; keys such as `__proto__` are plain data.
 */
export function mergeInto(object: JsonObject, patch: JsonObject): JsonObject {
  const entries = new Map(Object.entries(object));
  for (const [key, change] of Object.entries(patch)) {
    const before = entries.get(key);
    const after = merge(before, change);
    if (after === undefined) entries.delete(key);
    else entries.set(key, after);
  }
  return Object.fromEntries(entries);
}

/** undefined: nothing stays. */
function merge(before: JsonValue | undefined, change: JsonValue): JsonValue | undefined {
  if (change === null) return undefined;
  if (!isJsonObject(change)) return change;
  return mergeInto(isJsonObject(before) ? before : {}, change);
}
