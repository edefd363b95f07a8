import { noSuchOverload } from './cel-error.ts';
import { traversal } from './frame.ts';
import { type CelUint, isDuration, isNumber, isTimestamp } from './values.ts';

/** Of comparing two values without looking into lists or maps. */
export const comparison = (left: unknown, right: unknown): number =>
  typeof left === 'string' && typeof right === 'string' ? traversal(Math.min(left.length, right.length)) : 1;

/**
 * -1, 0 or 1; undefined when one of them is NaN, which is in no order.
 *
 * @throws CelError when there is no order between the two
 */
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

/** JavaScript compares a bigint and a number by their exact values. */
function compareNumbers(left: bigint | number, right: bigint | number): number | undefined {
  if (left < right) return -1;
  if (left > right) return 1;
  return left == right ? 0 : undefined;
}

const plain = (value: bigint | number | CelUint): bigint | number =>
  typeof value === 'object' ? value.value : value;

/** Beyond them JavaScript's order of texts, by UTF-16 unit, is not the order by code point. */
const BEYOND_ORDER = /[\ud800-\uffff]/;

export function compareText(left: string, right: string): number {
  if (left === right) return 0;
  if (BEYOND_ORDER.test(left) && BEYOND_ORDER.test(right)) {
    return Buffer.compare(Buffer.from(left), Buffer.from(right)); // UTF-8 keeps the order of code points
  }
  return left < right ? -1 : 1;
}
