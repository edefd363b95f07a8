import { CelError } from '../cel-error.ts';
import { mapGet } from './maps.ts';
import { isList, isMap, isOptional, isUint, NONE, optional, typeNameOf } from './values.ts';

/** Reads `value.field`, or `value[key]` of a map. @throws CelError */
export function read(value: unknown, key: unknown): unknown {
  if (isOptional(value)) return lookUp(value, key);
  const found = find(value, key);
  if (found !== undefined) return found;
  throw new CelError(isList(value) ? `index out of bounds: ${showKey(key)}` : `no such key: ${showKey(key)}`);
}

/** Reads `value.?field` or `value[?key]` as an optional. @throws CelError if the key of a list is not an index */
export function lookUp(value: unknown, key: unknown): unknown {
  if (isOptional(value)) return value.value === undefined ? NONE : lookUp(value.value, key);
  if (!isQualifier(key)) throw new CelError(`invalid qualifier type: ${typeNameOf(key)}`);
  const found = find(value, key);
  return found === undefined ? NONE : optional(found);
}

/** cel-go selects with these types only. */
const isQualifier = (key: unknown): boolean =>
  typeof key === 'string' ||
  typeof key === 'bigint' ||
  typeof key === 'number' ||
  typeof key === 'boolean' ||
  isUint(key);

/** `has(value.field)` */
export function hasField(value: unknown, field: string): boolean {
  if (isOptional(value)) return value.value !== undefined && hasField(value.value, field);
  return find(value, field) !== undefined;
}

/** Undefined if the key is absent, or if the value is neither a list nor a map. */
function find(value: unknown, key: unknown): unknown {
  if (isMap(value)) return mapGet(value, key);
  return isList(value) ? value[indexOf(key)] : undefined;
}

function indexOf(key: unknown): number {
  const index = isUint(key) ? key.value : key;
  if (typeof index === 'bigint') return Number(index);
  if (typeof index !== 'number') throw new CelError(`unsupported index type '${typeNameOf(key)}' in list`);
  if (!Number.isInteger(index)) throw new CelError(`unsupported index value ${index} in list`);
  return index;
}

function showKey(key: unknown): string {
  const plain = isUint(key) ? key.value : key;
  return typeof plain === 'string' ||
    typeof plain === 'bigint' ||
    typeof plain === 'number' ||
    typeof plain === 'boolean'
    ? String(plain)
    : typeNameOf(key);
}
