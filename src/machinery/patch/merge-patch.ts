import { isJsonArray, isJsonObject, type JsonObject, type JsonValue } from '../../json/json.ts';
import { mergeInto } from '../../json/merge-patch.ts';
import { badRequest } from '../failure.ts';
import { cannotDecode } from './go-types.ts';

/** JSON merge patch (RFC 7386). Like the API server, drops null fields even within lists. */
export function applyMergePatch(object: JsonObject, patch: JsonValue): JsonObject {
  if (patch === null) throw badRequest('Invalid JSON Patch');
  if (!isJsonObject(patch)) {
    throw badRequest(`error decoding patch: ${cannotDecode(patch, 'value of type map[string]interface {}')}`);
  }
  return mergeInto(object, withoutNullsInLists(patch, object));
}

function withoutNullsInLists(patch: JsonObject, live: JsonObject): JsonObject {
  return Object.fromEntries(
    Object.entries(patch).map(([key, value]): readonly [string, JsonValue] => {
      const before = Object.hasOwn(live, key) ? live[key] : undefined;
      if (isJsonObject(value)) return [key, withoutNullsInLists(value, isJsonObject(before) ? before : {})];
      // The API server keeps nulls in a list that replaces an object.
      return [key, isJsonArray(value) && !isJsonObject(before) ? value.map(withoutNulls) : value];
    }),
  );
}

/** Without null fields at any depth. Null items of lists stay. */
export function withoutNulls(value: JsonValue): JsonValue {
  if (isJsonArray(value)) return value.map(withoutNulls);
  if (!isJsonObject(value)) return value;
  return Object.fromEntries(
    Object.entries(value)
      .filter(([, item]) => item !== null)
      .map(([key, item]) => [key, withoutNulls(item)]),
  );
}
