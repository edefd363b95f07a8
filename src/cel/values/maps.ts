import { isJsonArray, type JsonArray, ownValue } from '../../json/json.ts';
import { memoizeWeak } from '../../json/objects.ts';
import { type CelMap, isInt64, isUint, typeNameOf } from './values.ts';
import { CelError } from '../cel-error.ts';

/** Numbers of different types that are equal are one key. Undefined if the value cannot be a key. */
export function mapKey(key: unknown): string | bigint | boolean | undefined {
  if (typeof key === 'string' || typeof key === 'bigint' || typeof key === 'boolean') return key;
  if (typeof key === 'number') return Number.isInteger(key) ? BigInt(key) : undefined;
  return isUint(key) ? key.value : undefined;
}

/** Other values than strings, numbers and Booleans can be keys, but nothing finds them. */
export function keyOf(key: unknown): unknown {
  if (key instanceof Uint8Array) throw new CelError(`unsupported key type: ${typeNameOf(key)}`);
  return mapKey(key) ?? key;
}

export function mapGet(map: CelMap, key: unknown): unknown {
  if (map instanceof Map) return map.get(mapKey(key));
  return typeof key === 'string' ? celValue(ownValue(map, key)) : undefined;
}

export function mapHas(map: CelMap, key: unknown): boolean {
  return mapGet(map, key) !== undefined;
}

/** Values are computed on first access, which throws the error of the computation. JSON objects are maps already. */
export function lazyCelMap(makers: ReadonlyMap<string, () => unknown>): CelMap {
  const made = new Map<unknown, unknown>([...makers.keys()].map((name) => [name, undefined]));
  const get = (name: unknown): unknown => {
    const known = Map.prototype.get.call(made, name) as unknown;
    const make = known === undefined && typeof name === 'string' ? makers.get(name) : undefined;
    if (make === undefined) return known;
    const value = make();
    made.set(name, value);
    return value;
  };
  return Object.assign(made, { get });
}

export const mapKeys = (map: CelMap): readonly unknown[] =>
  map instanceof Map ? [...map.keys()] : Object.keys(map);

export const mapSize = (map: CelMap): number => (map instanceof Map ? map.size : Object.keys(map).length);

/** An API integer is a CEL int if it fits into 64 bits. The API server reads larger ones as double. */
export function celNumber(value: number | bigint): number | bigint {
  if (typeof value === 'bigint') return isInt64(value) ? value : Number(value);
  return Number.isSafeInteger(value) ? BigInt(value) : value;
}

const converted = new WeakMap<object, readonly unknown[]>();

/** Values of an object are converted on access. Lists are converted one level deep and memoised: callers must not change them. */
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

/** The cost of traversing a JSON object: its values and a part of their text length. Memoised. */
export const weightOf = memoizeWeak((json: object): number => {
  let weight = 0;
  const open: unknown[] = [json];
  while (open.length > 0) {
    const value = open.pop();
    weight += typeof value === 'string' ? 1 + Math.floor(value.length / 50) : 1;
    if (typeof value === 'object' && value !== null) {
      for (const item of Object.values(value)) open.push(item);
    }
  }
  return weight;
});
