import { add, compare, comparison, isEqual } from '../values/comparison.ts';
import { CelError, noSuchOverload } from '../cel-error.ts';
import {
  type CelList,
  charge,
  duration,
  type Frame,
  isDuration,
  isList,
  isUint,
  mapKey,
  typeNameOf,
  uint,
} from '../values/values.ts';
import { type CelFunction, define, defineWithFrame } from './define.ts';

const COMPARABLE = ['int', 'uint', 'double', 'bool', 'duration', 'timestamp', 'string', 'bytes'];
const ZEROS = { int: 0n, uint: uint(0n), double: 0, duration: duration(0n) };

const forEach = (
  types: readonly string[],
  declarationOf: (type: string) => string,
  run: (frame: Frame, list: CelList) => unknown,
): readonly CelFunction[] =>
  types.map((type) =>
    defineWithFrame(`<list<${type}>>.${declarationOf(type)}`, (frame, list) => {
      charge(frame, 1);
      return run(frame, list);
    }),
  );

function charged(frame: Frame, left: unknown, right: unknown): number | undefined {
  charge(frame, comparison(left, right));
  return compare(left, right);
}

function isSorted(frame: Frame, list: CelList): boolean {
  if (!list.every(hasOrder)) throw noSuchOverload('isSorted(list)');
  return list.every((item, index) => index === 0 || orderOf(frame, list[index - 1], item) !== 1);
}

const hasOrder = (value: unknown): boolean => comparedWith(value, value) !== 'none';

/** The API server ignores values without a common order. */
function orderOf(frame: Frame, left: unknown, right: unknown): ReturnType<typeof comparedWith> {
  charge(frame, comparison(left, right));
  return comparedWith(left, right);
}

function comparedWith(left: unknown, right: unknown): number | 'none' | undefined {
  try {
    return compare(left, right);
  } catch (error) {
    if (error instanceof CelError) return 'none';
    throw error;
  }
}

const sum = (zero: unknown) => (frame: Frame, list: CelList) =>
  list.length === 0 ? zero : list.reduce((total, item) => add(frame, total, item), zeroLike(list[0]));

function zeroLike(item: unknown): unknown {
  if (typeof item === 'number') return ZEROS.double;
  if (isUint(item)) return ZEROS.uint;
  return isDuration(item) ? ZEROS.duration : ZEROS.int;
}

/** The first one if several are equal. `preferred`: the comparison result when the second operand is better. */
const extreme = (name: string, preferred: number) => (frame: Frame, list: CelList) => {
  if (list.length === 0) throw new CelError(`${name} called on empty list`);
  if (!list.every(hasOrder)) throw noSuchOverload(`${name}(list)`);
  return list.reduce((best, item) => (orderOf(frame, best, item) === preferred ? item : best));
};

function slice(list: CelList, start: bigint, end: bigint): CelList {
  const asked = `cannot slice(${start}, ${end})`;
  if (start < 0n || end < 0n) throw new CelError(`${asked}, negative indexes not supported`);
  if (start > end) throw new CelError(`${asked}, start index must be less than or equal to end index`);
  if (end > list.length) throw new CelError(`${asked}, list is length ${list.length}`);
  return list.slice(Number(start), Number(end));
}

function flatten(frame: Frame, list: CelList, depth: bigint): CelList {
  if (depth < 0n) throw new CelError('level must be non-negative');
  const flat: unknown[] = [];
  const walk = (items: CelList, left: bigint) => {
    charge(frame, items.length);
    for (const item of items) {
      if (left > 0n && isList(item)) walk(item, left - 1n);
      else flat.push(item);
    }
  };
  walk(list, depth);
  return flat;
}

/** Sorts the elements by their keys. @throws CelError if the keys have different types or no order */
export function sortByKeys(frame: Frame, list: CelList, keys: CelList): CelList {
  const type = typeNameOf(keys[0]);
  if (keys.some((key) => typeNameOf(key) !== type))
    throw new CelError('list elements must have the same type');
  const order = [...keys.keys()].sort((a, b) => charged(frame, keys[a], keys[b]) ?? 0);
  return order.map((index) => list[index]);
}

const sort = (frame: Frame, list: CelList): CelList => sortByKeys(frame, list, list);

function distinct(frame: Frame, list: CelList): CelList {
  const keys = new Set<unknown>();
  const others: unknown[] = [];
  return list.filter((item) => {
    const key = mapKey(item);
    charge(frame, key === undefined ? 1 + others.length : comparison(item, item));
    if (key === undefined ? others.some((other) => isEqual(other, item, frame)) : keys.has(key)) return false;
    if (key === undefined) others.push(item);
    else keys.add(key);
    return true;
  });
}

export const LONGEST_RANGE = 1_000_000;

function rangeOf(frame: Frame, size: bigint): CelList {
  if (size < 0n) throw new CelError(`lists.range: size must be non-negative, got ${size}`);
  if (size > LONGEST_RANGE) {
    throw new CelError(`lists.range: size ${size} exceeds maximum allowed (${LONGEST_RANGE})`);
  }
  charge(frame, 1 + Number(size)); // charge before allocating
  return Array.from({ length: Number(size) }, (_, index) => BigInt(index));
}

const length = (list: CelList) => 1 + list.length;

export const lists: readonly CelFunction[] = [
  ...forEach(COMPARABLE, () => 'isSorted(): bool', isSorted),
  ...Object.entries(ZEROS).flatMap(([type, zero]) => forEach([type], () => `sum(): ${type}`, sum(zero))),
  ...Object.entries({ min: 1, max: -1 }).flatMap(([name, preferred]) =>
    forEach(COMPARABLE, (type) => `${name}(): ${type}`, extreme(name, preferred)),
  ),
  defineWithFrame('<list<A>>.indexOf(A): int', (frame, list, item) => {
    charge(frame, list.length);
    return BigInt(list.findIndex((candidate) => isEqual(candidate, item, frame)));
  }),
  defineWithFrame('<list<A>>.lastIndexOf(A): int', (frame, list, item) => {
    charge(frame, list.length);
    return BigInt(list.findLastIndex((candidate) => isEqual(candidate, item, frame)));
  }),
];

/** cel-go checks the elements for the overloads of Kubernetes, not for its own ones. */
const ofAnyList = (one: CelFunction): CelFunction => ({ ...one, tests: one.tests.map(() => isList) });

export const extendedLists: readonly CelFunction[] = [
  define('<list<T>>.slice(int, int): list<T>', slice, length),
  ofAnyList(defineWithFrame('<list<list<T>>>.flatten(): list<T>', (frame, list) => flatten(frame, list, 1n))),
  defineWithFrame('<list<dyn>>.flatten(int): list<dyn>', flatten),
  ...forEach(COMPARABLE, (type) => `sort(): list<${type}>`, sort).map(ofAnyList),
  define('<list<T>>.reverse(): list<T>', (list) => list.toReversed(), length),
  defineWithFrame('<list<T>>.distinct(): list<T>', distinct),
];

export const range = [defineWithFrame('lists.range(int): list<int>', rangeOf)];

function contains(frame: Frame, list: CelList, part: CelList): boolean {
  return part.every((item) => includes(frame, list, item));
}

function includes(frame: Frame, list: CelList, item: unknown): boolean {
  charge(frame, 1 + list.length);
  return list.some((candidate) => isEqual(candidate, item, frame));
}

export const sets = [
  defineWithFrame('sets.contains(list<T>, list<T>): bool', contains),
  defineWithFrame(
    'sets.equivalent(list<T>, list<T>): bool',
    (frame, left, right) => contains(frame, left, right) && contains(frame, right, left),
  ),
  defineWithFrame('sets.intersects(list<T>, list<T>): bool', (frame, left, right) =>
    left.some((item) => includes(frame, right, item)),
  ),
];
