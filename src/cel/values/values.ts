import { isJsonArray, type JsonArray, type JsonValue, memoizeWeak, ownValue } from '../../json/json.ts';
import { CelCostError, CelError } from '../cel-error.ts';

/** Marks CEL values without a JavaScript type. User JSON can't contain symbol keys. */
export const CEL_TYPE: unique symbol = Symbol('CEL type');

export interface CelUint {
  readonly [CEL_TYPE]: 'uint';
  readonly value: bigint;
}

export interface CelTimestamp {
  readonly [CEL_TYPE]: 'google.protobuf.Timestamp';
  readonly nanos: bigint;
  /** The offset from UTC as written, in minutes, for `string`; undefined: UTC. */
  readonly offset?: number | undefined;
}

export interface CelDuration {
  readonly [CEL_TYPE]: 'google.protobuf.Duration';
  readonly nanos: bigint;
}

/** `value` is undefined if the optional is empty. */
export interface CelOptional {
  readonly [CEL_TYPE]: 'optional_type';
  readonly value: unknown;
}

export interface CelTypeValue {
  readonly [CEL_TYPE]: 'type';
  readonly name: string;
}

/** A value of a library type. The file of the library declares its other fields. */
export interface CelOpaque {
  readonly [CEL_TYPE]: string;
  /** Values of one type are equal if their identities are. */
  readonly identity: string | bigint;
}

/** A map that an expression created, or an unchanged JSON object whose values are converted on access. */
export type CelMap = ReadonlyMap<unknown, unknown> | object;
export type CelList = readonly unknown[];

export const uint = (value: bigint): CelUint => ({ [CEL_TYPE]: 'uint', value });
export const timestamp = (nanos: bigint, offset?: number): CelTimestamp => ({
  [CEL_TYPE]: 'google.protobuf.Timestamp',
  nanos,
  offset,
});
export const duration = (nanos: bigint): CelDuration => ({ [CEL_TYPE]: 'google.protobuf.Duration', nanos });
export const optional = (value: unknown): CelOptional => ({ [CEL_TYPE]: 'optional_type', value });
export const NONE = optional(undefined);
export const typeValue = (name: string): CelTypeValue => ({ [CEL_TYPE]: 'type', name });

export const MOST_INT = 2n ** 63n - 1n;
export const LEAST_INT = -(2n ** 63n);
export const MOST_UINT = 2n ** 64n - 1n;

export const isInt64 = (value: bigint): boolean => value <= MOST_INT && value >= LEAST_INT;

const messageNames = new WeakMap<object, string>();

export function messageValue(name: string, fields: readonly (readonly [string, unknown])[]): CelMap {
  const map = new Map<unknown, unknown>(fields);
  messageNames.set(map, name);
  return map;
}

export const messageNameOf = (value: unknown): string | undefined =>
  typeof value === 'object' && value !== null ? messageNames.get(value) : undefined;

export type Tagged = CelUint | CelTimestamp | CelDuration | CelOptional | CelTypeValue | CelOpaque;

export const isTagged = (value: unknown): value is Tagged =>
  typeof value === 'object' && value !== null && CEL_TYPE in value;

export const isUint = (value: unknown): value is CelUint => isTagged(value) && value[CEL_TYPE] === 'uint';
export const isTimestamp = (value: unknown): value is CelTimestamp =>
  isTagged(value) && value[CEL_TYPE] === 'google.protobuf.Timestamp';
export const isDuration = (value: unknown): value is CelDuration =>
  isTagged(value) && value[CEL_TYPE] === 'google.protobuf.Duration';
export const isOptional = (value: unknown): value is CelOptional =>
  isTagged(value) && value[CEL_TYPE] === 'optional_type';
/** A value of a Kubernetes library: a quantity, a URL, … */
export const isOpaque = (value: unknown): value is CelOpaque => isTagged(value) && 'identity' in value;

export const isTypeValue = (value: unknown): value is CelTypeValue =>
  isTagged(value) && value[CEL_TYPE] === 'type';
export const isList = (value: unknown): value is CelList => Array.isArray(value);
export const isMap = (value: unknown): value is CelMap =>
  typeof value === 'object' &&
  value !== null &&
  (value instanceof Map || !(Array.isArray(value) || CEL_TYPE in value || value instanceof Uint8Array));
export const isNumber = (value: unknown): value is bigint | number | CelUint =>
  typeof value === 'bigint' || typeof value === 'number' || isUint(value);

const PRIMITIVES: Readonly<Record<string, string>> = {
  string: 'string',
  bigint: 'int',
  number: 'double',
  boolean: 'bool',
};

export function typeNameOf(value: unknown): string {
  if (value === null) return 'null_type';
  if (typeof value !== 'object') return PRIMITIVES[typeof value] ?? typeof value;
  if (Array.isArray(value)) return 'list';
  if (value instanceof Uint8Array) return 'bytes';
  return isTagged(value) ? value[CEL_TYPE] : (messageNames.get(value) ?? 'map');
}

/** Numbers of different types that are equal are one key. Undefined if the value cannot be a key. */
export function mapKey(key: unknown): string | bigint | boolean | undefined {
  if (typeof key === 'string' || typeof key === 'bigint' || typeof key === 'boolean') return key;
  if (typeof key === 'number') return Number.isInteger(key) ? BigInt(key) : undefined;
  return isUint(key) ? key.value : undefined;
}

/** Other values than strings, numbers and Booleans can be keys, but nothing finds them. */
export function keyOf(key: unknown): unknown {
  if (key instanceof Uint8Array) throw new CelError(`unsupported key type: ${typeNameOf(key)}`);
  return mapKey(key) ?? key;
}

export function mapGet(map: CelMap, key: unknown): unknown {
  if (map instanceof Map) return map.get(mapKey(key));
  return typeof key === 'string' ? celValue(ownValue(map, key)) : undefined;
}

/** Values are computed on first access, which throws the error of the computation. JSON objects are maps already. */
export function lazyCelMap(makers: ReadonlyMap<string, () => unknown>): CelMap {
  const made = new Map<unknown, unknown>([...makers.keys()].map((name) => [name, undefined]));
  const get = (name: unknown): unknown => {
    const known = Map.prototype.get.call(made, name) as unknown;
    const make = known === undefined && typeof name === 'string' ? makers.get(name) : undefined;
    if (make === undefined) return known;
    const value = make();
    made.set(name, value);
    return value;
  };
  return Object.assign(made, { get });
}

export const mapKeys = (map: CelMap): readonly unknown[] =>
  map instanceof Map ? [...map.keys()] : Object.keys(map);

export const mapSize = (map: CelMap): number => (map instanceof Map ? map.size : Object.keys(map).length);

/** An API integer is a CEL int if it fits into 64 bits. The API server reads larger ones as double. */
export function celNumber(value: number | bigint): number | bigint {
  if (typeof value === 'bigint') return isInt64(value) ? value : Number(value);
  return Number.isSafeInteger(value) ? BigInt(value) : value;
}

/** A list can change between two evaluations, but not within one. */
interface ConvertedList {
  readonly items: JsonArray;
  readonly result: readonly unknown[];
  readonly evaluation: number;
}

const converted = new WeakMap<object, ConvertedList>();
const results = new WeakSet();
let evaluation = 0;

export const beginEvaluation = (): void => {
  evaluation += 1;
};

/** Values of an object are converted on access. Lists are converted one level deep and memoised. */
export function celValue(value: unknown): unknown {
  if (typeof value === 'object') return isJsonArray(value) ? celList(value) : value;
  return typeof value === 'number' || typeof value === 'bigint' ? celNumber(value) : value;
}

function celList(list: JsonArray): readonly unknown[] {
  if (results.has(list)) return list;
  const known = converted.get(list);
  if (known?.evaluation === evaluation) return known.result;
  const result = resultFor(list, known);
  const items = result === list ? list : [...list];
  converted.set(list, { items, result, evaluation });
  return result;
}

function resultFor(list: JsonArray, known: ConvertedList | undefined): readonly unknown[] {
  if (!list.some(isConverted)) return list;
  const isSame = (item: JsonValue, index: number) =>
    item === known?.items[index] && (!isJsonArray(item) || celList(item) === known.result[index]);
  if (known?.items.length === list.length && known.items !== list && list.every(isSame)) return known.result;
  const result = list.map(celValue);
  results.add(result);
  return result;
}

const isConverted = (item: unknown) =>
  typeof item === 'number' || typeof item === 'bigint' || Array.isArray(item);

/** The cost of traversing a JSON object: its values and a part of their text length. Memoised. */
export const weightOf = memoizeWeak((json: object): number => {
  let weight = 0;
  const open: unknown[] = [json];
  while (open.length > 0) {
    const value = open.pop();
    weight += typeof value === 'string' ? 1 + Math.floor(value.length / 50) : 1;
    if (typeof value === 'object' && value !== null) {
      for (const item of Object.values(value)) open.push(item);
    }
  }
  return weight;
});

export interface Frame {
  readonly slots: unknown[];
  readonly budget: CelBudget;
}

export type Step = (frame: Frame) => unknown;

/** Counts the time that steps take here: about 1 per call or field. @throws CelCostError when nothing is left */
export function charge({ budget }: Frame, time: number): void {
  budget.time -= time;
  if (budget.time >= 0) return;
  budget.time = 0;
  throw new CelCostError();
}

/** A cost that the API server counts as well. @throws CelCostError when nothing is left */
export function count({ budget }: Frame, cost: number): void {
  budget.remaining -= cost;
  if (budget.remaining >= 0) return;
  budget.remaining = 0;
  throw new CelCostError();
}

/** Charges a cost that the step has both here and in the API server. @throws CelCostError when nothing is left */
export function spend({ budget }: Frame, cost: number): void {
  budget.time -= cost;
  budget.remaining -= cost;
  if (budget.time >= 0 && budget.remaining >= 0) return;
  budget.time = Math.max(0, budget.time);
  budget.remaining = Math.max(0, budget.remaining);
  throw new CelCostError();
}

/** The cost of traversing or comparing this many characters, bytes or elements. */
export const traversal = (size: number): number => Math.ceil(size * 0.1);

/** The cost of parsing a text with a grammar, such as a quantity: our parsers take longer than the API server's. */
export const parsing = (text: string): number => 20 + traversal(text.length);

/** The cost of matching a pattern, which is proportional to the product of both lengths. */
export const matching = (text: string, pattern: string): number =>
  traversal(text.length + 1) * Math.ceil(pattern.length * 0.25);

/** The limit for all expressions that can deny one review: 10 to 90 ms here. The API server has the same limit for each expression. */
export const CEL_COST_LIMIT = 1_000_000;

export interface CelBudget {
  /** In units of the API server, which counts about 1 per evaluation step. Never negative. */
  remaining: number;
  /** In units of the same size, by the time that the steps take here, which the API server's cost does not measure. Never negative. */
  time: number;
}

export const createCelBudget = (limit: number = CEL_COST_LIMIT): CelBudget => ({
  remaining: limit,
  time: limit,
});

const FAILURE_COST = 20;

/** The value or the error: the other operand may decide. @throws CelCostError, which no operand can absorb */
export function attempt(frame: Frame, step: Step): unknown {
  try {
    return step(frame);
  } catch (error) {
    if (!(error instanceof CelError) || error instanceof CelCostError) throw error;
    charge(frame, FAILURE_COST);
    return error;
  }
}
