import {
  add,
  compare,
  comparison,
  divide,
  isEqual,
  multiply,
  negate,
  remainder,
  subtract,
  unsupported,
} from '../values/comparison.ts';
import { CelError, noSuchOverload } from '../cel-error.ts';
import { CEL_TYPE, charge, isList, isMap, isOpaque, isTagged, mapGet } from '../values/values.ts';
import { ANY_VALUE, type CelFunction, declare, type Run } from './define.ts';
import { authorizer, selectors } from './authorizer.ts';
import { basics, conversions } from './conversions.ts';
import { cidr, containsCidr, ip } from './network.ts';
import { format } from './named-formats.ts';
import { jsonpatch, regex, strings } from './strings.ts';
import { extendedLists, lists, range, sets } from './lists.ts';
import { elements, optionals } from './optionals.ts';
import { quantity } from './quantity.ts';
import { semver } from './semver.ts';
import { stringFormat } from './string-format.ts';
import { times } from './times.ts';
import { url } from './url.ts';

/** Overloads such as `int int int` run one function, which inspects the values. They differ for the checker only. */
const operator = (name: string, overloads: readonly string[], run: Run): readonly CelFunction[] =>
  overloads.map((overload) => {
    const types = overload.split(' ');
    const declared = declare(name, types.at(-1) ?? '', ...types.slice(0, -1));
    return { ...declared, tests: declared.parameters.map(() => ANY_VALUE), run };
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

const differs: Run = (frame, left, right) =>
  !isComparable(left, right) || equals(frame, left, right) === false;

const isIn: Run = (frame, key, container) => {
  if (isList(container)) {
    charge(frame, container.length);
    return container.some((item) => isEqual(item, key, frame));
  }
  charge(frame, 1);
  if (isMap(container)) return mapGet(container, key) !== undefined;
  throw unsupported('@in', container);
};

const ORDERS: Readonly<Record<string, (order: number) => boolean>> = {
  '_<_': (order) => order < 0,
  '_<=_': (order) => order <= 0,
  '_>_': (order) => order > 0,
  '_>=_': (order) => order >= 0,
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
const operators: readonly CelFunction[] = [
  ...operator('_==_', ['A A bool'], equals),
  ...operator('_!=_', ['A A bool'], differs),
  ...operator('@in', ['A list<A> bool', 'A map<A,B> bool'], isIn),
  ...Object.entries(ORDERS).flatMap(([name, holds]) => operator(name, comparisons, ordered(holds))),
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

/** A function of 1.30 is usable from 1.31, and no release accepts those of 1.37 so far (k8s.io/apiserver pkg/cel/environment). */
const introducedIn = (minor: number, functions: readonly CelFunction[]): readonly CelFunction[] =>
  functions.map((one) => ({ ...one, since: minor + 1 }));

const everything: readonly CelFunction[] = [
  ...operators,
  ...basics,
  ...conversions,
  ...times,
  ...optionals,
  ...strings,
  ...stringFormat,
  ...lists,
  ...sets,
  ...regex,
  ...quantity,
  ...url,
  ...authorizer,
  ...introducedIn(30, [...ip, ...cidr]),
  ...introducedIn(31, [...format, ...selectors]),
  ...introducedIn(32, jsonpatch),
  // Before 1.34, the result was false for a network inside another network.
  ...introducedIn(33, containsCidr),
  ...introducedIn(33, [...semver, ...elements]),
  ...introducedIn(34, extendedLists),
  // Before 1.37, it accepted other sizes.
  ...introducedIn(36, range),
];

export const functions: ReadonlyMap<string, readonly CelFunction[]> = Map.groupBy(
  everything,
  ({ name }) => name,
);
