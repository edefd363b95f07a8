import { add, divide, multiply, negate, remainder, subtract, unsupported } from '../values/arithmetic.ts';
import { CelError, noSuchOverload } from '../cel-error.ts';
import { isEqual, compare, comparison } from '../values/comparison.ts';
import { charge } from '../frame.ts';
import type { CelFunction, Run } from './define.ts';
import { mapHas } from '../values/maps.ts';
import { BOOL, type CelType } from '../types/type.ts';
import { parseType } from '../types/type-name.ts';
import type { ValueTest } from '../types/value-test.ts';
import { CEL_TYPE, isList, isMap, isOpaque, isTagged } from '../values/values.ts';

/** For operator overloads, which run the same function for all values. */
export const ANY_VALUE: ValueTest = () => true;

/**
 * The overloads of an operator, written `int int int` for `int op int → int`. All run the same function, which inspects
 * the values. They differ for the checker only.
 */
const operator = (name: string, overloads: readonly string[], run: Run): readonly CelFunction[] =>
  overloads.map((overload) => {
    const types = overload.split(' ').map(parseType);
    const parameters = types.slice(0, -1);
    const result: CelType = types.at(-1) ?? BOOL;
    return {
      name,
      member: false,
      parameters,
      result,
      tests: parameters.map(() => ANY_VALUE),
      run,
    };
  });

/** Values of the Kubernetes libraries compare with their own type only. Null is not equal to anything else. */
const isComparable = (left: unknown, right: unknown): boolean =>
  !isOpaque(left) ||
  right === null ||
  (isTagged(right) && right[CEL_TYPE] === left[CEL_TYPE] && !('isComputed' in right));

const equals: Run = (frame, left, right) => {
  if (typeof left === 'object' && !isComparable(left, right)) throw noSuchOverload();
  if (typeof left !== 'string' || typeof right !== 'string') charge(frame, 1);
  else if (left.length !== right.length) charge(frame, comparison(left, right)); // charge as if the texts were compared
  return isEqual(left, right, frame);
};

/** What cannot be compared is different. */
const differs: Run = (frame, left, right) =>
  !isComparable(left, right) || equals(frame, left, right) === false;

const isIn: Run = (frame, key, container) => {
  if (isList(container)) {
    charge(frame, container.length);
    return container.some((item) => isEqual(item, key, frame));
  }
  charge(frame, 1);
  if (isMap(container)) return mapHas(container, key);
  throw unsupported('@in', container);
};

const ordered =
  (holds: (order: number) => boolean): Run =>
  (frame, left, right) => {
    charge(frame, comparison(left, right));
    const order = compare(left, right);
    if (order === undefined) throw new CelError('NaN values cannot be ordered');
    return holds(order);
  };

const not: Run = (frame, value) => {
  charge(frame, 1);
  if (typeof value === 'boolean') return !value;
  throw unsupported('!_', value);
};

const NUMBERS = ['int', 'uint', 'double'];
const ORDERED = ['bool', 'string', 'bytes', 'timestamp', 'duration'].map((type) => `${type} ${type} bool`);
const comparisons = [
  ...ORDERED,
  ...NUMBERS.flatMap((left) => NUMBERS.map((right) => `${left} ${right} bool`)),
];
const same = (...types: readonly string[]) => types.map((type) => `${type} ${type} ${type}`);

/** The overloads have the order of cel-go: the first one gives a free type variable its type. */
export const operators: readonly CelFunction[] = [
  ...operator('_==_', ['A A bool'], equals),
  ...operator('_!=_', ['A A bool'], differs),
  ...operator('@in', ['A list<A> bool', 'A map<A,B> bool'], isIn),
  ...operator(
    '_<_',
    comparisons,
    ordered((order) => order < 0),
  ),
  ...operator(
    '_<=_',
    comparisons,
    ordered((order) => order <= 0),
  ),
  ...operator(
    '_>_',
    comparisons,
    ordered((order) => order > 0),
  ),
  ...operator(
    '_>=_',
    comparisons,
    ordered((order) => order >= 0),
  ),
  ...operator(
    '_+_',
    [
      ...same('bytes', 'double', 'duration'),
      ...['duration timestamp timestamp', 'timestamp duration timestamp'],
      ...same('int', 'list<A>', 'string', 'uint'),
    ],
    add,
  ),
  ...operator(
    '_-_',
    [
      ...same('double', 'duration', 'int'),
      ...['timestamp duration timestamp', 'timestamp timestamp duration'],
      ...same('uint'),
    ],
    subtract,
  ),
  ...operator('_*_', same('double', 'int', 'uint'), multiply),
  ...operator('_/_', same('double', 'int', 'uint'), divide),
  ...operator('_%_', same('int', 'uint'), remainder),
  ...operator('-_', ['double double', 'int int'], negate),
  ...operator('!_', ['bool bool'], not),
];
