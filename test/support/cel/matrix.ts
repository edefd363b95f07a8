/** The expressions of test/data/cel-matrix-1.37.jsonl, and what Gatehouse makes of them. */
import { readFileSync } from 'node:fs';

import { CelError, celOptional, type CelProgram, compileCel } from '../../../src/cel/cel.ts';
import {
  celValue,
  createCelBudget,
  duration,
  isDuration,
  isOptional,
  isTagged,
  isTimestamp,
  isTypeValue,
  isUint,
  typeNameOf,
  typeValue,
  uint,
} from '../../../src/cel/values/values.ts';
import { isJsonObject, type JsonValue } from '../../../src/json/json.ts';
import { parseTimestamp, showTimestamp } from '../../../src/cel/values/time.ts';

/** A value with its type: `{"int":"3"}`, `{"list":[…]}`, `{"map":[[key,value],…]}`. */
export type Tagged = Readonly<Record<string, unknown>>;

export interface MatrixCase {
  readonly group: string;
  readonly expression: string;
  readonly variables?: Readonly<Record<string, string>>;
  readonly bindings?: Readonly<Record<string, Tagged>>;
  readonly checkOnly?: boolean;
  readonly kubernetes: Answer;
  /** Of the oldest supported version, if its verdict is another one. */
  readonly oldest?: Answer;
}

export interface Answer {
  readonly type?: string;
  readonly result?: Tagged;
  readonly error?: string;
  readonly compileError?: string;
  readonly cost?: number;
  /** Of Gatehouse: the minor version of the first API server that answers so; default: every supported one. */
  readonly since?: number;
}

export const readMatrix = (path: URL): readonly MatrixCase[] =>
  readFileSync(path, 'utf8')
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line) as MatrixCase); // recorded

export function ourAnswer({ expression, variables = {}, bindings = {}, checkOnly }: MatrixCase): Answer {
  let program: CelProgram;
  try {
    program = compileCel(expression, variables, { uniformLiterals: true });
  } catch (error) {
    if (!(error instanceof CelError)) throw error;
    const { position, message } = error;
    const at = position === undefined ? '' : `:${position.line}:${position.column}`;
    return { compileError: `ERROR: <input>${at}: ${message}` };
  }
  const { type, needs } = program;
  const since = needs === undefined ? {} : { since: needs.minor };
  if (checkOnly === true) return { type, ...since };
  const values = Object.fromEntries(Object.entries(bindings).map(([name, value]) => [name, celOf(value)]));
  const budget = createCelBudget();
  const before = budget.remaining;
  try {
    const result = taggedOf(program.run(values, budget));
    return { type, result, cost: before - budget.remaining, ...since };
  } catch (error) {
    if (!(error instanceof CelError)) throw error;
    return { type, error: error.message, cost: before - budget.remaining, ...since };
  }
}

const SCALARS: Readonly<Record<string, (text: string) => unknown>> = {
  int: BigInt,
  uint: (text) => uint(BigInt(text)),
  double: (text) => Number(text.replace(/Inf(inity)?/, 'Infinity')),
  bytes: (text) => new Uint8Array(Buffer.from(text, 'base64')),
  timestamp: parseTimestamp,
  duration: (text) => duration(BigInt(text)),
  type: typeValue,
};

function celOf(tagged: Tagged): unknown {
  const [[kind, value] = ['', undefined]] = Object.entries(tagged);
  const scalar = SCALARS[kind];
  if (scalar !== undefined) return scalar(String(value));
  if (kind === 'list') return (value as readonly Tagged[]).map(celOf);
  if (kind === 'optional') return celOptional(value === null ? undefined : celOf(value as Tagged));
  if (kind !== 'map') return value; // null, bool, string
  const pairs = value as readonly (readonly [Tagged, Tagged])[];
  return new Map(pairs.map(([key, item]) => [celOf(key), celOf(item)]));
}

function taggedOf(value: unknown): Tagged {
  if (value === null) return { null: null };
  if (typeof value === 'bigint') return { int: String(value) };
  if (typeof value === 'number') return { double: String(value) };
  if (typeof value === 'string') return { string: value };
  if (typeof value === 'boolean') return { bool: value };
  if (value instanceof Uint8Array) return { bytes: Buffer.from(value).toString('base64') };
  if (isUint(value)) return { uint: String(value.value) };
  if (isTimestamp(value)) return { timestamp: showTimestamp({ ...value, offset: undefined }) };
  if (isDuration(value)) return { duration: String(value.nanos) };
  if (isOptional(value)) return { optional: value.value === undefined ? null : taggedOf(value.value) };
  if (Array.isArray(value)) return { list: value.map(taggedOf) };
  if (isTypeValue(value)) return { type: value.name };
  if (isTagged(value)) return { opaque: typeNameOf(value) };
  const entries = value instanceof Map ? [...value] : Object.entries(value as object);
  return { map: entries.map(([key, item]) => [taggedOf(key), taggedOf(item)]) };
}

export const taggedJson = (value: JsonValue): Tagged => taggedOf(deeply(value));

function deeply(value: unknown): unknown {
  const read = celValue(value);
  if (Array.isArray(read)) return read.map(deeply);
  if (!isJsonObject(read)) return read;
  return new Map(Object.entries(read).map(([key, item]) => [key, deeply(item)]));
}

const typeText = ({ type = '' }: Answer): string =>
  type
    .replaceAll('google.protobuf.Timestamp', 'timestamp')
    .replaceAll('google.protobuf.Duration', 'duration')
    .replaceAll('null_type', 'null')
    .replace(/\boptional\(/g, 'optional_type('); // as 1.30 calls it

/** What decides: compile error, error or result. Messages are compared apart. */
export function isSameVerdict(ours: Answer, theirs: Answer): boolean {
  if (theirs.compileError !== undefined || ours.compileError !== undefined)
    return theirs.compileError !== undefined && ours.compileError !== undefined;
  if (typeText(ours) !== typeText(theirs)) return false;
  if (theirs.error !== undefined || ours.error !== undefined)
    return theirs.error !== undefined && ours.error !== undefined;
  return isSameValue(ours.result, theirs.result);
}

function isSameValue(ours: unknown, theirs: unknown): boolean {
  return JSON.stringify(normal(ours)) === JSON.stringify(normal(theirs));
}

function normal(value: unknown): unknown {
  if (value === null || typeof value !== 'object') return value;
  if (Array.isArray(value)) return value.map(normal);
  const [[kind, content] = ['', undefined]] = Object.entries(value as Tagged);
  if (kind === 'double')
    return { double: String(Number(String(content).replace(/^([-+]?)Inf$/, '$1Infinity'))) };
  if (kind === 'opaque') return { opaque: content };
  if (kind === 'map')
    return { map: (content as unknown[]).map((pair) => JSON.stringify(normal(pair))).sort() };
  return { [kind]: normal(content) };
}
