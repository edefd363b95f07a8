import { noSuchOverload } from '../cel-error.ts';
import { traversal, charge, type Frame } from '../frame.ts';
import {
  type CelUint,
  isDuration,
  isNumber,
  isTimestamp,
  CEL_TYPE,
  type CelMap,
  isList,
  isMap,
  isOptional,
  isTagged,
  isUint,
  type Tagged,
} from './values.ts';
import { isEqual as isEqualJson } from '../../json/json.ts';
import { mapGet, mapKeys, mapSize, weightOf } from './maps.ts';
import { isEqualTyped, listTypeOf } from './typed-lists.ts';

/** The cost of comparing two values, without the contents of lists and maps. */
export const comparison = (left: unknown, right: unknown): number =>
  typeof left === 'string' && typeof right === 'string' ? traversal(Math.min(left.length, right.length)) : 1;

/** Undefined if either is NaN. @throws CelError if the types lack an order */
export function compare(left: unknown, right: unknown): number | undefined {
  if (typeof left === 'bigint' && typeof right === 'bigint') return sign(left, right);
  if (typeof left === 'string' && typeof right === 'string') return compareText(left, right);
  if (isNumber(left) && isNumber(right)) return compareNumbers(plain(left), plain(right));
  if (typeof left === 'boolean' && typeof right === 'boolean') return Number(left) - Number(right);
  if (isTimestamp(left) && isTimestamp(right)) return sign(left.nanos, right.nanos);
  if (isDuration(left) && isDuration(right)) return sign(left.nanos, right.nanos);
  if (left instanceof Uint8Array && right instanceof Uint8Array) return Buffer.compare(left, right);
  throw noSuchOverload();
}

const sign = (left: bigint, right: bigint) => (left < right ? -1 : left > right ? 1 : 0);

/** Like in cel-go, an integer and a double compare as doubles. */
function compareNumbers(first: bigint | number, second: bigint | number): number | undefined {
  const isMixed = typeof first !== typeof second;
  const left = isMixed ? Number(first) : first;
  const right = isMixed ? Number(second) : second;
  if (left < right) return -1;
  if (left > right) return 1;
  return left == right ? 0 : undefined;
}

const plain = (value: bigint | number | CelUint): bigint | number =>
  typeof value === 'object' ? value.value : value;

/** JavaScript sorts text by UTF-16 unit. For these units, that differs from the order of code points. */
const BEYOND_ORDER = /[\ud800-\uffff]/;

export function compareText(left: string, right: string): number {
  if (left === right) return 0;
  if (BEYOND_ORDER.test(left) && BEYOND_ORDER.test(right)) {
    return Buffer.compare(Buffer.from(left), Buffer.from(right)); // UTF-8 keeps the order of code points
  }
  return left < right ? -1 : 1;
}

/** CEL's `==`: numbers are equal across their types. Charges the traversal of lists and maps. */
export function isEqual(left: unknown, right: unknown, frame: Frame): boolean {
  if (typeof left === 'bigint' || typeof left === 'number') return isEqualNumber(left, right);
  if (typeof left === 'string') return isEqualText(left, right, frame);
  if (left === right) return true;
  return typeof left === 'object' && left !== null && isEqualObject(left, right, frame);
}

/** Fast path: texts of different lengths are not equal. */
function isEqualText(left: string, right: unknown, frame: Frame): boolean {
  if (typeof right !== 'string' || left.length !== right.length) return false;
  charge(frame, traversal(left.length));
  return left === right;
}

function isEqualNumber(left: number | bigint, right: unknown): boolean {
  const other = isUint(right) ? right.value : right;
  if (typeof other === typeof left) return left === other;
  return (typeof other === 'number' || typeof other === 'bigint') && Number(left) === Number(other);
}

function isEqualObject(left: object, right: unknown, frame: Frame): boolean {
  if (isUint(left)) return isEqualNumber(left.value, right);
  if (isList(left)) return isList(right) && isEqualList(left, right, frame);
  if (isTagged(left)) {
    return isTagged(right) && left[CEL_TYPE] === right[CEL_TYPE] && isEqualTagged(left, right, frame);
  }
  if (left instanceof Uint8Array) {
    if (!(right instanceof Uint8Array)) return false;
    charge(frame, traversal(Math.min(left.length, right.length)));
    return Buffer.compare(left, right) === 0;
  }
  return isMap(right) && isEqualMap(left, right, frame);
}

function isEqualList(left: readonly unknown[], right: readonly unknown[], frame: Frame): boolean {
  const type = listTypeOf(left);
  if (type !== undefined) {
    charge(frame, left.length + right.length);
    return isEqualTyped(left, right, type, (one, other) => isEqual(one, other, frame));
  }
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
