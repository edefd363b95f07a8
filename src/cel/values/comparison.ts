import { CelError, noSuchOverload } from '../cel-error.ts';
import {
  CEL_TYPE,
  type CelMap,
  type CelUint,
  charge,
  duration,
  type Frame,
  isDuration,
  isInt64,
  isList,
  isMap,
  isNumber,
  isOptional,
  isTagged,
  isTimestamp,
  isUint,
  mapGet,
  mapKeys,
  mapSize,
  MOST_UINT,
  type Tagged,
  timestamp,
  traversal,
  typeNameOf,
  uint,
  weightOf,
} from './values.ts';
import { isEqual as isEqualJson } from '../../json/json.ts';
import { addTyped, isEqualTyped, isStored, listTypeOf } from './typed-lists.ts';

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

/** 0001-01-01T00:00:00Z and the last nanosecond of the year 9999. */
const LEAST_TIMESTAMP = -62_135_596_800_000_000_000n;
const MOST_TIMESTAMP = 253_402_300_799_999_999_999n;

export function intOf(value: bigint): bigint {
  if (!isInt64(value)) throw new CelError('integer overflow');
  return value;
}

export function uintOf(value: bigint): CelUint {
  if (value > MOST_UINT || value < 0n) throw new CelError('unsigned integer overflow');
  return uint(value);
}

export function durationOf(nanos: bigint) {
  if (!isInt64(nanos)) throw new CelError('duration overflow');
  return duration(nanos);
}

export function timestampOf(nanos: bigint, offset?: number) {
  if (nanos > MOST_TIMESTAMP || nanos < LEAST_TIMESTAMP) throw new CelError('timestamp overflow');
  return timestamp(nanos, offset);
}

export function add(frame: Frame, left: unknown, right: unknown): unknown {
  if (typeof left === 'bigint' && typeof right === 'bigint') return charged(frame, intOf(left + right));
  if (typeof left === 'string' && typeof right === 'string') {
    charge(frame, traversal(left.length + right.length));
    return left + right;
  }
  if (typeof left === 'number' && typeof right === 'number') return charged(frame, left + right);
  if (isList(left) && isList(right)) return addLists(frame, left, right);
  if (left instanceof Uint8Array && right instanceof Uint8Array) {
    charge(frame, traversal(left.length + right.length));
    return new Uint8Array(Buffer.concat([left, right]));
  }
  charge(frame, 1);
  if (isUint(left) && isUint(right)) return uintOf(left.value + right.value);
  if (isDuration(left) && isDuration(right)) return durationOf(left.nanos + right.nanos);
  if (isTimestamp(left) && isDuration(right)) return timestampOf(left.nanos + right.nanos, left.offset);
  if (isDuration(left) && isTimestamp(right)) return timestampOf(left.nanos + right.nanos, right.offset);
  throw unsupported('_+_', left);
}

/** The API server links lists instead of copying them: this copies, so it charges the length. */
function addLists(frame: Frame, left: readonly unknown[], right: readonly unknown[]): readonly unknown[] {
  const type = listTypeOf(left);
  if (type !== undefined) {
    charge(frame, 1 + left.length + right.length);
    return addTyped(left, right, type);
  }
  charge(frame, 1 + traversal(left.length + right.length));
  // An empty list that an expression created leaves the other list unchanged, with its type.
  return left.length === 0 && !isStored(left) ? right : [...left, ...right];
}

export function subtract(frame: Frame, left: unknown, right: unknown): unknown {
  charge(frame, 1);
  if (typeof left === 'bigint' && typeof right === 'bigint') return intOf(left - right);
  if (typeof left === 'number' && typeof right === 'number') return left - right;
  if (isUint(left) && isUint(right)) return uintOf(left.value - right.value);
  if (isDuration(left) && isDuration(right)) return durationOf(left.nanos - right.nanos);
  if (isTimestamp(left) && isTimestamp(right)) return durationOf(left.nanos - right.nanos);
  if (isTimestamp(left) && isDuration(right)) return timestampOf(left.nanos - right.nanos, left.offset);
  throw unsupported('_-_', left);
}

export function multiply(frame: Frame, left: unknown, right: unknown): unknown {
  charge(frame, 1);
  if (typeof left === 'bigint' && typeof right === 'bigint') return intOf(left * right);
  if (typeof left === 'number' && typeof right === 'number') return left * right;
  if (isUint(left) && isUint(right)) return uintOf(left.value * right.value);
  throw unsupported('_*_', left);
}

export function divide(frame: Frame, left: unknown, right: unknown): unknown {
  charge(frame, 1);
  if (typeof left === 'bigint' && typeof right === 'bigint') return intOf(left / divisor(right, 'division'));
  if (typeof left === 'number' && typeof right === 'number') return left / right;
  if (isUint(left) && isUint(right)) return uintOf(left.value / divisor(right.value, 'division'));
  throw unsupported('_/_', left);
}

export function remainder(frame: Frame, left: unknown, right: unknown): unknown {
  charge(frame, 1);
  if (typeof left === 'bigint' && typeof right === 'bigint') return remainderOf(left, right);
  if (isUint(left) && isUint(right)) return uintOf(left.value % divisor(right.value, 'modulus'));
  throw unsupported('_%_', left);
}

/** Like in Go, the remainder is an error if the quotient overflows. */
function remainderOf(left: bigint, right: bigint): bigint {
  const rest = left % divisor(right, 'modulus');
  intOf(left / right);
  return rest;
}

export function negate(frame: Frame, value: unknown): unknown {
  charge(frame, 1);
  if (typeof value === 'bigint') return intOf(-value);
  if (typeof value === 'number') return -value;
  if (isDuration(value)) return durationOf(-value.nanos);
  throw unsupported('-_', value);
}

function divisor(value: bigint, operation: string): bigint {
  if (value === 0n) throw new CelError(`${operation} by zero`);
  return value;
}

function charged<T>(frame: Frame, value: T): T {
  charge(frame, 1);
  return value;
}

/** cel-go names the operator only if the type of the first operand supports no operators at all. */
const SILENT = new Set(
  'int uint double string list bytes google.protobuf.Timestamp google.protobuf.Duration'.split(' '),
);

export function unsupported(operator: string, operand: unknown): CelError {
  return noSuchOverload(SILENT.has(typeNameOf(operand)) ? '' : operator);
}
