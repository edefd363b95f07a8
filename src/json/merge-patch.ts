import {
  isJsonArray,
  isJsonObject,
  type JsonArray,
  type JsonObject,
  type JsonValue,
  stringifyJson,
  valueIn,
} from './json.ts';

/** Which lists merge by item, as server-side apply does. All others are replaced. */
export interface ListTypes {
  /** The fields that identify an item, with their defaults; none: the items of a set. Undefined: it is no such list. */
  readonly keys?: readonly (readonly [name: string, preset: JsonValue])[];
  /** The lists in each field; `*` is in each item or value. */
  readonly below: ReadonlyMap<string, ListTypes>;
}

/** JSON Merge Patch (RFC 7386), except for these lists. Does not change `object`. Keys such as `__proto__` are plain data. */
export function mergeInto(object: JsonObject, patch: JsonObject, lists?: ListTypes): JsonObject {
  const entries = new Map(Object.entries(object));
  for (const [key, change] of Object.entries(patch)) {
    if (change === null) entries.delete(key);
    else entries.set(key, merge(entries.get(key), change, lists?.below.get(key) ?? lists?.below.get('*')));
  }
  return Object.fromEntries(entries);
}

function merge(before: JsonValue | undefined, change: JsonValue, lists?: ListTypes): JsonValue {
  if (isJsonArray(change) && lists?.keys !== undefined)
    return mergeItems(isJsonArray(before) ? before : [], change, lists);
  if (!isJsonObject(change)) return change;
  return mergeInto(isJsonObject(before) ? before : {}, change, lists);
}

function mergeItems(before: JsonArray, change: JsonArray, { keys = [], below }: ListTypes): JsonArray {
  const idOf = (item: JsonValue) =>
    stringifyJson(keys.length === 0 ? item : keys.map(([name, preset]) => valueIn(item, name) ?? preset));
  const merged = [...before];
  const places = new Map(before.map((item, index) => [idOf(item), index]));
  for (const item of change) {
    const id = idOf(item);
    const place = places.get(id) ?? merged.length;
    places.set(id, place);
    merged[place] = merge(merged[place], item, below.get('*'));
  }
  return merged;
}
