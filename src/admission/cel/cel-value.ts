import { isJsonArray, type JsonArray, type JsonObject } from '../json.ts';

const MOST_INT64 = 2n ** 63n - 1n;
const LEAST_INT64 = -(2n ** 63n);

/** An integer of the API is CEL's int as long as it fits into 64 bits; beyond, the API server has a double. */
export function celNumber(value: number | bigint): number | bigint {
  if (typeof value === 'bigint') return value >= LEAST_INT64 && value <= MOST_INT64 ? value : Number(value);
  return Number.isSafeInteger(value) ? BigInt(value) : value;
}

const converted = new WeakMap<object, unknown>();

/**
 * A JSON value as expressions see it: integers are bigint, other numbers double, objects Maps (so that a key named
 * `constructor` is plain data). Values that are not JSON pass as they are.
 *
 * Objects and arrays are remembered by identity, so that many rules over one object convert it once: nobody may change them.
 */
export function celValue(value: unknown): unknown {
  if (typeof value === 'number' || typeof value === 'bigint') return celNumber(value);
  if (typeof value !== 'object' || value === null) return value;
  const known = converted.get(value);
  if (known !== undefined) return known;
  const result = isJsonArray(value) ? celList(value) : isPlain(value) ? celMap(value) : value;
  converted.set(value, result);
  return result;
}

const celList = (list: JsonArray) => list.map(celValue);

function celMap(object: JsonObject): ReadonlyMap<string, unknown> {
  const map = new Map<string, unknown>();
  for (const key of Object.keys(object)) map.set(key, celValue(object[key]));
  return map;
}

function isPlain(value: object): value is JsonObject {
  const prototype: unknown = Object.getPrototypeOf(value);
  return prototype === Object.prototype || prototype === null;
}
