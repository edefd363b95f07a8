import type { JsonArray, JsonObject, JsonValue } from '../../json/json.ts';

/**
 * The object with every value changed; a field is dropped if `change` returns undefined. Returns the same reference
 * if nothing changes, so that callers can detect this and nothing is copied.
 */
export function changeFields(
  object: JsonObject,
  change: (value: JsonValue, key: string) => JsonValue | undefined,
): JsonObject {
  let changed: [string, JsonValue][] | undefined;
  const keys = Object.keys(object);
  for (const [index, key] of keys.entries()) {
    const before = object[key] as JsonValue; // `key` is an own property
    const after = change(before, key);
    if (after === before && changed === undefined) continue;
    changed ??= keys.slice(0, index).map((earlier) => [earlier, object[earlier] as JsonValue]); // as above
    if (after !== undefined) changed.push([key, after]);
  }
  return changed === undefined ? object : Object.fromEntries(changed);
}

/** The list with every item changed; returns the same reference if nothing changes. */
export function changeItems(list: JsonArray, change: (item: JsonValue) => JsonValue): JsonArray {
  let changed: JsonValue[] | undefined;
  for (const [index, before] of list.entries()) {
    const after = change(before);
    if (after !== before) changed ??= list.slice(0, index);
    changed?.push(after);
  }
  return changed ?? list;
}
