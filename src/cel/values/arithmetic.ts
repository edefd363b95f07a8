import { CelError, noSuchOverload } from '../cel-error.ts';
import { charge, type Frame, traversal } from '../frame.ts';
import { addTyped, isStored, listTypeOf } from './typed-lists.ts';
import {
  type CelUint,
  duration,
  isDuration,
  isInt64,
  isList,
  isTimestamp,
  isUint,
  MOST_UINT,
  timestamp,
  typeNameOf,
  uint,
} from './values.ts';

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
