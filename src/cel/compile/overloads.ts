import { CelCostError, CelError, noSuchOverload } from '../cel-error.ts';
import type { Compiler } from './compiler.ts';
import {
  attempt,
  CEL_TYPE,
  count,
  type Frame,
  isList,
  isMap,
  isOpaque,
  isTagged,
  mapGet,
  mapKeys,
  mapSize,
  type Step,
  type Tagged,
  traversal,
  typeNameOf,
} from '../values/values.ts';
import { ANY_VALUE, type CelCidr, type CelFunction, type CelIp } from '../library/define.ts';
import { isSameType } from '../types/solver.ts';
import { type CelType, DYN, showType } from '../types/type.ts';
import { CHECK_COST } from '../library/authorizer.ts';
import { LONGEST_RANGE } from '../library/lists.ts';
import { textSize } from '../library/text.ts';

export interface Resolution {
  readonly type: CelType;
  readonly candidates: readonly CelFunction[];
}

export interface Called {
  readonly name: string;
  readonly member: boolean;
  readonly types: readonly CelType[];
  readonly at: number;
}

/** @throws CelError if no overload matches the types */
export function resolveOverloads(
  { name, member, types, at }: Called,
  overloads: readonly CelFunction[],
  { solver, fail }: Compiler,
): Resolution {
  const candidates: CelFunction[] = [];
  let result: CelType | undefined;
  for (const overload of overloads) {
    const [own = DYN, ...parameters] = solver.instantiate([overload.result, ...overload.parameters]);
    if (!solver.assign(parameters, types)) continue;
    candidates.push(overload);
    const type = solver.resolve(own);
    result = result === undefined || isSameType(result, type) ? type : DYN;
  }
  if (result !== undefined) return { type: result, candidates };
  const [receiver = '', ...rest] = types.map((type) => showType(solver.resolve(type)));
  const applied = member ? `${receiver}.(${rest.join(', ')})` : `(${[receiver, ...rest].join(', ')})`;
  throw fail(`found no matching overload for '${name}' applied to '${applied}'`, at);
}

export function callStep(
  name: string,
  { candidates }: Resolution,
  steps: readonly Step[],
  isFree: boolean,
): Step {
  const [first, ...others] = candidates;
  const [left, right, ...more] = steps;
  const cost = isFree ? () => 0 : costOfCall(name, candidates);
  if (first !== undefined && left !== undefined && more.length === 0) {
    // All overloads of an operator run the same function.
    if (first.tests.includes(ANY_VALUE) || others.length === 0) {
      return right === undefined
        ? unaryStep(name, first, cost, left)
        : binaryStep(name, first, cost, left, right);
    }
  }
  return (frame) => {
    const parts = steps.map((step) => step(frame));
    count(frame, cost(parts[0], parts[1], parts[2]));
    for (const { tests, run } of candidates) {
      if (parts.every((part, index) => tests[index]?.(part))) return run(frame, ...parts);
    }
    throw mismatch(name, parts);
  };
}

function unaryStep(
  name: string,
  { tests: [test = ANY_VALUE], run }: CelFunction,
  cost: CallCost,
  step: Step,
): Step {
  return (frame) => {
    let value: unknown;
    try {
      value = step(frame);
    } catch (error) {
      throw failed(error, frame, cost);
    }
    count(frame, cost === ONE ? 1 : cost(value));
    if (test(value)) return run(frame, value);
    throw mismatch(name, [value]);
  };
}

function binaryStep(
  name: string,
  { tests: [test = ANY_VALUE, otherTest = ANY_VALUE], run }: CelFunction,
  cost: CallCost,
  left: Step,
  right: Step,
): Step {
  return (frame) => {
    let value: unknown;
    let other: unknown;
    try {
      value = left(frame);
    } catch (error) {
      throw failed(error, frame, cost, right);
    }
    try {
      other = right(frame);
    } catch (error) {
      throw failed(error, frame, cost);
    }
    count(frame, cost === ONE ? 1 : cost(value, other));
    if (test(value) && otherTest(other)) return run(frame, value, other);
    throw mismatch(name, [value, other]);
  };
}

/** cel-go evaluates and counts all parts of a call, even if one fails. @returns the error */
function failed(error: unknown, frame: Frame, cost: CallCost, next?: Step): unknown {
  if (!(error instanceof CelError) || error instanceof CelCostError) return error;
  if (next !== undefined) attempt(frame, next);
  count(frame, cost(undefined, undefined));
  return error;
}

/** For `size`, the message of cel-go contains only the name. */
const mismatch = (name: string, parts: readonly unknown[]) =>
  noSuchOverload(name === 'size' ? name : `${name}(${parts.map(typeNameOf).join(', ')})`);

type CallCost = (first: unknown, second?: unknown, third?: unknown) => number;

const ONE: CallCost = () => 1;

function costOfCall(name: string, candidates: readonly CelFunction[]): CallCost {
  const [only, ...others] = candidates;
  if (name === 'sort') return others.length === 0 ? compared : ONE;
  const own = BY_NAME.get(name);
  if (own !== undefined) return own;
  if (name === 'containsIP' || name === 'containsCIDR') return costOfContaining(name, candidates);
  // Where the checker cannot know the overload, cel-go does not know its cost.
  if (only === undefined || others.length > 0) return ONE;
  const type = only.parameters[name === '@in' ? 1 : 0];
  return BY_OVERLOAD.get(`${kindOf(type)}.${name}`) ?? ONE;
}

const kindOf = (type: CelType | undefined): string =>
  type?.kind === 'named' ? type.name : (type?.kind ?? '');

function costOfContaining(name: string, [only, ...others]: readonly CelFunction[]): CallCost {
  const cost = name === 'containsIP' ? containsIp : containsCidr;
  if (others.length > 0 || kindOf(only?.parameters[1]) !== 'string') return cost;
  return (network, text) => cost(network) + traversal(sizeOf(text));
}

/** Characters, bytes, elements or keys; 1 for other values. */
function sizeOf(value: unknown): number {
  if (typeof value === 'bigint' || typeof value === 'boolean' || typeof value === 'number') return 1;
  if (typeof value === 'string') return textSize(value);
  if (value instanceof Uint8Array || isList(value)) return value.length;
  if (isTagged(value)) return sizeOfTagged(value);
  return isMap(value) ? mapSize(value) : 1;
}

/** The bytes of an address. Of a network, only the bytes that its prefix covers. */
function sizeOfTagged(value: Tagged): number {
  const type = value[CEL_TYPE];
  if (type === 'net.IP') return (value as CelIp).family === 4 ? 4 : 16;
  return type === 'net.CIDR' ? Math.ceil((value as CelCidr).length / 8) : 1;
}

/** All values inside a value: 1 for each, 0.1 for each byte of a text. */
function traversedDeeply(value: unknown): number {
  if (typeof value === 'string') return Math.floor(Buffer.byteLength(value) * 0.1);
  if (value instanceof Uint8Array) return Math.floor(value.length * 0.1);
  if (isList(value)) return value.reduce<number>((cost, item) => cost + traversedDeeply(item), 0);
  if (isTagged(value) || !isMap(value)) return 1;
  return mapKeys(value).reduce<number>(
    (cost, key) => cost + traversedDeeply(key) + traversedDeeply(mapGet(value, key)),
    0,
  );
}

const once: CallCost = (value) => traversal(sizeOf(value));
const smaller: CallCost = (left, right) => traversal(Math.min(sizeOf(left), sizeOf(right)));
const matched = (text: unknown, steps: number): number => traversal(1 + sizeOf(text)) * steps;
const pattern: CallCost = (text, expression) => matched(text, Math.ceil(sizeOf(expression) * 0.25));
const searched: CallCost = (text, part) => traversal(sizeOf(text)) * traversal(sizeOf(part));

const LIST = 11;
const ranged: CallCost = (size) =>
  LIST + (typeof size === 'bigint' && 0n <= size && size <= LONGEST_RANGE ? Number(size) : 1);
const sliced: CallCost = (list, start, end) =>
  LIST + (isList(list) && isRange(list, start, end) ? Number(end) - Number(start) : 1);
const compared: CallCost = (list) => (isList(list) ? LIST + 2 * list.length ** 2 : 0);

const isRange = (list: readonly unknown[], start: unknown, end: unknown): boolean =>
  typeof start === 'bigint' && typeof end === 'bigint' && 0n <= start && start <= end && end <= list.length;

/** How many steps the pattern of a format has for the API server. */
const FORMAT_STEPS: Readonly<Record<string, number>> = {
  dns1123Label: 8,
  dns1123Subdomain: 15,
  dns1035Label: 8,
  qualifiedName: 15,
  dns1123LabelPrefix: 8,
  dns1123SubdomainPrefix: 15,
  dns1035LabelPrefix: 8,
  labelValue: 10,
  uri: 276,
  uuid: 18,
  byte: 21,
  date: 18,
  datetime: 18,
};

/** A value without a size fails, but counts as one element. */
const flattened: CallCost = (list, depth = 1n) =>
  typeof depth === 'bigint' ? LIST + sizeOf(list) * (depth < 0n ? 1 : Number(depth)) : 0;

/** The length of the result counts. */
function joined(list: unknown, separator: unknown): number {
  if (!isList(list)) return 1;
  const size = list.reduce<number>((sum, item) => sum + sizeOf(item), 0);
  const between = typeof separator === 'string' ? sizeOf(separator) * Math.max(0, list.length - 1) : 0;
  return traversal(2 * (size + between));
}

const validated: CallCost = (format, text) =>
  isOpaque(format) ? matched(text, FORMAT_STEPS[String(format.identity)] ?? 1) : 1;

const containsIp: CallCost = (network) => traversal(2 * sizeOf(network));
const containsCidr: CallCost = (network) => traversal(2 * sizeOf(network)) + traversal(sizeOf(network)) + 1;

const named = (cost: CallCost, names: string): readonly (readonly [string, CallCost])[] =>
  names.split(' ').map((name) => [name, cost]);

/** Costs that do not depend on the types. */
const BY_NAME: ReadonlyMap<string, CallCost> = new Map([
  ...named(() => CHECK_COST, 'check'),
  ...named(traversedDeeply, 'isSorted sum max min indexOf lastIndexOf'),
  ...named(
    once,
    'url lowerAscii upperAscii substring trim strings.quote jsonpatch.escapeKey cidr isIP isCIDR quantity isQuantity semver isSemver',
  ),
  ...named((value) => traversal(2 * sizeOf(value)), 'replace split ip.isCanonical'),
  ...named(joined, 'join'),
  ...named(pattern, 'find findAll'),
  ...named((value) => (typeof value === 'string' ? traversal(sizeOf(value)) : 1), 'ip'),
  ...named(validated, 'validate'),
  ...named((list) => LIST + (isList(list) ? list.length : 1), 'reverse'),
  ...named(sliced, 'slice'),
  ...named(ranged, 'lists.range'),
  ...named(flattened, 'flatten'),
  ...named(compared, 'distinct @sortByAssociatedKeys'),
  ...named((left, right) => 1 + sizeOf(left) * sizeOf(right), 'sets.contains sets.intersects'),
  ...named((left, right) => 1 + 2 * sizeOf(left) * sizeOf(right), 'sets.equivalent'),
  ...named((left, right) => (isOpaque(left) ? 1 : smaller(left, right)), '_==_ _!=_'),
  ...named(() => 0, 'or orValue'),
]);

/** Counted only if the types select this overload. */
const BY_OVERLOAD: ReadonlyMap<string, CallCost> = new Map([
  ...named(pattern, 'string.matches'),
  ...named((_text, part) => traversal(sizeOf(part)), 'string.startsWith string.endsWith'),
  ...named(once, 'string.bytes bytes.string'),
  ...named((_item, list) => sizeOf(list), 'list.@in'),
  ...named(smaller, ['<', '<=', '>', '>='].flatMap((one) => [`string._${one}_`, `bytes._${one}_`]).join(' ')),
  ...named((left, right) => traversal(sizeOf(left) + sizeOf(right)), 'string._+_ bytes._+_'),
  ...named(searched, 'string.contains'),
]);
