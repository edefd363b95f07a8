import { ownValue } from '../json/json.ts';
import { celValue } from './cel-value.ts';
import { type CelMap, isUint } from './values.ts';

/**
 * Keys of one number are one key, whatever its type: 1, 1u and 1.0.
 *
 * @returns undefined for what cannot be a key
 */
export function mapKey(key: unknown): string | bigint | boolean | undefined {
  switch (typeof key) {
    case 'string':
    case 'bigint':
    case 'boolean':
      return key;
    case 'number':
      return Number.isInteger(key) ? BigInt(key) : undefined;
    case 'object':
      return isUint(key) ? key.value : undefined;
    case 'undefined':
    case 'symbol':
    case 'function':
      return undefined;
  }
}

/** The value of the key; undefined when the map has no such key. */
export function mapGet(map: CelMap, key: unknown): unknown {
  if (map instanceof Map) return map.get(mapKey(key));
  return typeof key === 'string' ? celValue(ownValue(map, key)) : undefined;
}

export function mapHas(map: CelMap, key: unknown): boolean {
  return mapGet(map, key) !== undefined;
}

/**
 * A map of CEL values that are made when they are first read; whoever reads one gets the error that its making throws.
 *
 * Not for JSON objects: they are maps as they are, and their numbers become ints or doubles as they are read.
 */
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
