import { type JsonObject, type JsonValue, setOwn } from '../../json/json.ts';
import { asCelError, CelError } from '../cel-error.ts';
import {
  CEL_TYPE,
  isDuration,
  isList,
  isOptional,
  isTagged,
  isTimestamp,
  isUint,
  mapGet,
  mapKeys,
  typeNameOf,
} from './values.ts';
import { showDuration, showTimestamp } from './time.ts';

/** Bytes become base64, durations text such as `1h30m0s`. @throws CelError for values without a JSON form, e.g. NaN or a type */
export function celToJson(value: unknown): JsonValue {
  try {
    return toJson(value);
  } catch (error) {
    throw asCelError(error);
  }
}

function toJson(value: unknown): JsonValue {
  if (value === null || typeof value === 'string' || typeof value === 'boolean') return value;
  if (typeof value === 'bigint') return integerToJson(value);
  if (typeof value === 'object') return objectToJson(value);
  if (typeof value !== 'number') throw new CelError(`a value of type ${typeof value} is not JSON`);
  if (!Number.isFinite(value)) throw new CelError(`the double ${value} is not a JSON number`);
  return value;
}

function integerToJson(value: bigint): number | bigint {
  const number = Number(value);
  return Number.isSafeInteger(number) ? number : value;
}

function objectToJson(value: object): JsonValue {
  if (isList(value)) return value.map(toJson);
  if (value instanceof Uint8Array) return Buffer.from(value).toString('base64');
  if (isUint(value)) return integerToJson(value.value);
  if (isTimestamp(value)) return showTimestamp({ ...value, offset: undefined });
  if (isDuration(value)) return showDuration(value);
  if (isOptional(value)) throw new CelError('an optional is not JSON: use orValue(…) or value()');
  if (isTagged(value))
    throw new CelError(`a value of type ${value[CEL_TYPE]} is not JSON: convert it to a string or number`);
  return value instanceof Map ? mapToJson(value) : (value as JsonObject); // an unchanged JSON object
}

function mapToJson(map: ReadonlyMap<unknown, unknown>): JsonValue {
  const object: Record<string, JsonValue> = {};
  for (const key of mapKeys(map)) {
    if (typeof key !== 'string') {
      throw new CelError(`a map with a key of type ${typeNameOf(key)} is not JSON: its keys must be strings`);
    }
    setOwn(object, key, toJson(mapGet(map, key)));
  }
  return object;
}

/** Unwraps an optional: undefined for `optional.none()`. Returns other values unchanged. */
export const valueOfOptional = (result: unknown): unknown => (isOptional(result) ? result.value : result);
