import { isJsonArray, type JsonArray } from '../json/json.ts';

const MOST_INT64 = 2n ** 63n - 1n;
const LEAST_INT64 = -(2n ** 63n);

/** An integer of the API is CEL's int as long as it fits into 64 bits; beyond, the API server has a double. */
export function celNumber(value: number | bigint): number | bigint {
  if (typeof value === 'bigint') return value >= LEAST_INT64 && value <= MOST_INT64 ? value : Number(value);
  return Number.isSafeInteger(value) ? BigInt(value) : value;
}

const converted = new WeakMap<object, readonly unknown[]>();

/**
 * A JSON value as expressions see it: integers are bigint, other numbers double. Values that are not JSON pass as they are.
 *
 * An object stays what it is, and its values are converted when an expression reads them: a rule that looks at one field of a
 * large object costs no more than that. Arrays are converted one level deep and remembered by identity: nobody may change
 * them.
 */
export function celValue(value: unknown): unknown {
  if (typeof value === 'object') return isJsonArray(value) ? celList(value) : value;
  return typeof value === 'number' || typeof value === 'bigint' ? celNumber(value) : value;
}

function celList(list: JsonArray): readonly unknown[] {
  const known = converted.get(list);
  if (known !== undefined) return known;
  const result = list.some(isConverted) ? list.map(celValue) : list;
  converted.set(list, result);
  converted.set(result, result);
  return result;
}

const isConverted = (item: unknown) =>
  typeof item === 'number' || typeof item === 'bigint' || Array.isArray(item);
