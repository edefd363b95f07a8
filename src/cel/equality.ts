import { isEqual as isEqualJson } from '../json/json.ts';
import { charge, type Frame, traversal } from './frame.ts';
import { mapGet, mapKeys, mapSize } from './maps.ts';
import { CEL_TYPE, type CelMap, isList, isMap, isOptional, isTagged, isUint, type Tagged } from './values.ts';
import { weightOf } from './weight.ts';

/**
 * CEL's `==`: numbers are equal across their types, and values of different types are not equal.
 *
 * Walking into lists and maps is charged.
 */
export function isEqual(left: unknown, right: unknown, frame: Frame): boolean {
  switch (typeof left) {
    case 'bigint':
    case 'number':
      return isEqualNumber(left, right);
    case 'object':
      return left === right || (left !== null && isEqualObject(left, right, frame));
    case 'string':
      return isEqualText(left, right, frame);
    case 'boolean':
    case 'undefined':
    case 'symbol':
    case 'function':
      return left === right;
  }
}

/** Texts of different lengths differ without a look. */
function isEqualText(left: string, right: unknown, frame: Frame): boolean {
  if (typeof right !== 'string' || left.length !== right.length) return false;
  charge(frame, traversal(left.length));
  return left === right;
}

function isEqualNumber(left: number | bigint, right: unknown): boolean {
  const other = isUint(right) ? right.value : right;
  // JavaScript's == compares a bigint and a number by their exact values.
  return (typeof other === 'number' || typeof other === 'bigint') && left == other;
}

function isEqualObject(left: object, right: unknown, frame: Frame): boolean {
  if (isUint(left)) return isEqualNumber(left.value, right);
  if (isList(left)) return isList(right) && isEqualList(left, right, frame);
  if (isTagged(left)) {
    return isTagged(right) && left[CEL_TYPE] === right[CEL_TYPE] && isEqualTagged(left, right, frame);
  }
  if (left instanceof Uint8Array) return right instanceof Uint8Array && isEqualBytes(left, right, frame);
  return isMap(right) && isEqualMap(left, right, frame);
}

function isEqualBytes(left: Uint8Array, right: Uint8Array, frame: Frame): boolean {
  charge(frame, traversal(Math.min(left.length, right.length)));
  return Buffer.compare(left, right) === 0;
}

function isEqualList(left: readonly unknown[], right: readonly unknown[], frame: Frame): boolean {
  if (left.length !== right.length) return false;
  charge(frame, Math.ceil(left.length / 2));
  return left.every((item, index) => isEqual(item, right[index], frame));
}

function isEqualMap(left: CelMap, right: CelMap, frame: Frame): boolean {
  if (!(left instanceof Map || right instanceof Map)) {
    charge(frame, Math.min(weightOf(left), weightOf(right)));
    return isEqualJson(left, right);
  }
  const size = mapSize(left);
  if (size !== mapSize(right)) return false;
  charge(frame, size);
  return mapKeys(left).every((key) => {
    const other = mapGet(right, key);
    return other !== undefined && isEqual(mapGet(left, key), other, frame);
  });
}

function isEqualTagged(left: Tagged, right: Tagged, frame: Frame): boolean {
  if (isOptional(left) && isOptional(right)) return isEqual(left.value, right.value, frame);
  return identityOf(left) === identityOf(right);
}

function identityOf(value: Tagged): unknown {
  if ('nanos' in value) return value.nanos;
  if ('name' in value) return value.name;
  return 'identity' in value ? value.identity : value.value;
}
