import { apply } from 'json-merge-patch';
import { isJsonArray, isJsonObject, type JsonObject, type JsonValue } from '../../json/json.ts';
import { badRequest } from '../machinery/failure.ts';
import { cannotDecode } from './go-words.ts';
import { shelter, unshelter } from './sheltered-keys.ts';

/**
 * The object after a JSON merge patch (RFC 7386). As in the API server, fields that are null are left out within lists too.
 *
 * @throws ApiFailure 400 when the patch is not an object
 */
export function applyMergePatch(object: JsonObject, patch: JsonValue): JsonObject {
  if (patch === null) throw badRequest('Invalid JSON Patch');
  if (!isJsonObject(patch)) {
    throw badRequest(`error decoding patch: ${cannotDecode(patch, 'value of type map[string]interface {}')}`);
  }
  const merged = unshelter(apply(shelter(object), shelter(withoutNullsInLists(patch, object))) as JsonValue); // JSON in, JSON out
  if (!isJsonObject(merged)) throw new Error('an object merged with an object is an object');
  return merged;
}

/** A list that takes the place of an object is the exception. */
function withoutNullsInLists(patch: JsonValue, live: JsonValue | undefined): JsonValue {
  if (isJsonArray(patch)) return isJsonObject(live) ? patch : patch.map(withoutNulls);
  if (!isJsonObject(patch)) return patch;
  const below = (key: string) => (isJsonObject(live) && Object.hasOwn(live, key) ? live[key] : undefined);
  return Object.fromEntries(
    Object.entries(patch).map(([key, value]) => [key, withoutNullsInLists(value, below(key))]),
  );
}

/** Without the fields that are null, however deep; items of lists that are null stay. */
export function withoutNulls(value: JsonValue): JsonValue {
  if (isJsonArray(value)) return value.map(withoutNulls);
  if (!isJsonObject(value)) return value;
  return Object.fromEntries(
    Object.entries(value)
      .filter(([, item]) => item !== null)
      .map(([key, item]) => [key, withoutNulls(item)]),
  );
}
