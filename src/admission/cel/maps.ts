import { ownValue } from '../json.ts';
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

export const mapKeys = (map: CelMap): readonly unknown[] =>
  map instanceof Map ? [...map.keys()] : Object.keys(map);

export const mapSize = (map: CelMap): number => (map instanceof Map ? map.size : Object.keys(map).length);
