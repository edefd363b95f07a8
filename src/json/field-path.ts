import {
  isEqual,
  isJsonArray,
  isJsonObject,
  type JsonArray,
  type JsonObject,
  type JsonValue,
  ownValue,
  setOwn,
} from './json.ts';
import { quote } from './printable.ts';

export type Segment =
  | { readonly kind: 'field'; readonly name: string }
  | { readonly kind: 'index'; readonly index: number }
  /** `[*]`: every element of a list. */
  | { readonly kind: 'each' };

/** A parsed path such as `spec.disks[*].class` or `metadata.labels["example.com/rack"]`. */
export interface FieldPath {
  /** As written in the policy. */
  readonly text: string;
  readonly segments: readonly Segment[];
  /** The concrete path, also as {@link formatPath} writes it; undefined when `[*]` matches several. */
  readonly concrete: { readonly keys: ConcretePath; readonly text: string } | undefined;
}

export type ConcretePath = readonly (string | number)[];

export interface FieldValue {
  readonly path: string;
  readonly keys: ConcretePath;
  readonly value: JsonValue;
}

/** Thrown by {@link parsePath}. The message says where the mistake is and what to write instead. */
export class InvalidPath extends Error {
  override name = 'InvalidPath';
}

const BRACKETS = 'other characters need brackets: labels["example.com/rack"]';
const PLAIN_NAME = /[A-Za-z_$][A-Za-z0-9_$-]*/y;
const ONLY_PLAIN_NAME = /^[A-Za-z_$][A-Za-z0-9_$-]*$/;
const INDEX = /\d{1,6}(?=\])/y;
const QUOTED = /"(?:[^"\\]|\\.)*"(?=\])/y;
/** Recursion follows the segments: more than any API nests, and far below the stack limit. */
const MAX_SEGMENTS = 64;
const MAX_PATH_LENGTH = 1024;

export function parsePath(text: string): FieldPath {
  if (text === '') throw new InvalidPath('the path is empty: write one such as spec.datacenter');
  if (text.startsWith('/'))
    throw new InvalidPath('paths have dots, not slashes: write one such as spec.datacenter');
  if (text.length > MAX_PATH_LENGTH)
    throw new InvalidPath(`the path has more than ${MAX_PATH_LENGTH} characters`);
  const segments: Segment[] = [];
  let at = 0;
  while (at < text.length) {
    const [segment, end] = segmentAt(text, at);
    segments.push(segment);
    at = end;
  }
  if (segments.length > MAX_SEGMENTS) throw new InvalidPath(`the path has more than ${MAX_SEGMENTS} parts`);
  return { text, segments, concrete: concreteOf(segments) };
}

export function tryParsePath(text: string): FieldPath | undefined {
  try {
    return parsePath(text);
  } catch (error) {
    if (error instanceof InvalidPath) return undefined;
    throw error;
  }
}

function concreteOf(segments: readonly Segment[]): FieldPath['concrete'] {
  const keys = segments.map(keyOf);
  return keys.every((key) => key !== undefined) ? { keys, text: formatPath(keys) } : undefined;
}

function keyOf(segment: Segment): string | number | undefined {
  if (segment.kind === 'field') return segment.name;
  return segment.kind === 'index' ? segment.index : undefined;
}

function segmentAt(text: string, at: number): readonly [Segment, number] {
  if (text[at] === '[') return bracketAt(text, at);
  if (at > 0 && text[at] !== '.') throw invalidAt(text, at, `expected a dot or a bracket; ${BRACKETS}`);
  const start = at === 0 ? 0 : at + 1;
  const name = matchAt(PLAIN_NAME, text, start);
  if (name === undefined) throw invalidAt(text, start, `expected a field name; ${BRACKETS}`);
  return [{ kind: 'field', name }, start + name.length];
}

function bracketAt(text: string, at: number): readonly [Segment, number] {
  const start = at + 1;
  if (text.startsWith('*]', start)) return [{ kind: 'each' }, start + 2];
  const index = matchAt(INDEX, text, start);
  if (index !== undefined) return [{ kind: 'index', index: Number(index) }, start + index.length + 1];
  const quoted = matchAt(QUOTED, text, start);
  if (quoted === undefined)
    throw invalidAt(text, start, 'expected *, an index or a name in double quotes, then ]');
  return [{ kind: 'field', name: unquote(text, start, quoted) }, start + quoted.length + 1];
}

function unquote(text: string, at: number, quoted: string): string {
  try {
    return String(JSON.parse(quoted));
  } catch (cause) {
    throw new InvalidPath(invalidAt(text, at, 'the quoted name is not a JSON string').message, { cause });
  }
}

function matchAt(pattern: RegExp, text: string, at: number): string | undefined {
  pattern.lastIndex = at;
  return pattern.exec(text)?.[0];
}

function invalidAt(text: string, at: number, expected: string): InvalidPath {
  const found = at < text.length ? `found ${quote(text[at])}` : 'the path ends';
  return new InvalidPath(`at character ${at + 1} of ${quote(text)}: ${expected}, but ${found}`);
}

export function formatPath(keys: ConcretePath): string {
  return keys.reduce<string>((text, key) => {
    if (typeof key === 'number') return `${text}[${key}]`;
    if (!ONLY_PLAIN_NAME.test(key)) return `${text}[${JSON.stringify(key)}]`;
    return text === '' ? key : `${text}.${key}`;
  }, '');
}

/** All values at the path. An absent field yields nothing; a present null yields null. */
export function valuesAt(object: object, path: FieldPath): readonly FieldValue[] {
  if (path.concrete !== undefined) {
    const { keys, text } = path.concrete;
    const value = valueAt(object, keys);
    return value === undefined ? [] : [{ path: text, keys, value }];
  }
  return Array.from(keysAt(object, path), (keys) => ({
    path: formatPath(keys),
    keys,
    value: valueAt(object, keys) ?? null,
  }));
}

/** Where the values are, one after the other: users control how many there are. */
export function* keysAt(
  value: unknown,
  path: FieldPath,
  keys: ConcretePath = [],
): Generator<ConcretePath, undefined> {
  if (value === undefined) return;
  const segment = path.segments[keys.length];
  if (segment === undefined) {
    yield keys;
    return;
  }
  const key = keyOf(segment);
  if (key !== undefined) yield* keysAt(childOf(value, key), path, [...keys, key]);
  else if (isJsonArray(value))
    for (const [index, item] of value.entries()) yield* keysAt(item, path, [...keys, index]);
}

export function valueAt(object: object, keys: ConcretePath): JsonValue | undefined {
  let value: unknown = object;
  for (const key of keys) value = childOf(value, key);
  return value as JsonValue | undefined; // everything in a JSON object is JSON
}

export function childOf(value: unknown, key: string | number): unknown {
  if (typeof key === 'number') return isJsonArray(value) ? value[key] : undefined;
  return isJsonObject(value) ? ownValue(value, key) : undefined;
}

/** Replaces each `[*]` by the index at that position in `present`, which is equal up to the last `[*]`. */
export function siblingPath(present: ConcretePath, { segments }: FieldPath): ConcretePath {
  return segments.map((segment, depth) => keyOf(segment) ?? present[depth] ?? 0);
}

/** Whether each value of `other` has exactly one sibling at `path`: both paths are equal up to the last `[*]` of `path`. */
export function isSiblingPath(path: FieldPath, other: FieldPath): boolean {
  const shared = path.segments.findLastIndex(({ kind }) => kind === 'each') + 1;
  return isEqual(path.segments.slice(0, shared), other.segments.slice(0, shared));
}

/** Creates parents but no list elements. Returns the same object if no field is absent; changes no present value. */
export function fill(object: JsonObject, path: FieldPath, value: JsonValue): JsonObject {
  const filled = fillFrom(object, path.segments, 0, value);
  return isJsonObject(filled) ? filled : object;
}

function fillFrom(
  current: JsonValue | undefined,
  segments: readonly Segment[],
  depth: number,
  value: JsonValue,
): JsonValue | undefined {
  const segment = segments[depth];
  if (segment === undefined) return current === undefined ? value : current;
  if (segment.kind === 'field') return fillField(current, segment.name, segments, depth, value);
  if (!isJsonArray(current)) return current;
  return mapShared(current, (item, index) =>
    segment.kind === 'each' || index === segment.index
      ? (fillFrom(item, segments, depth + 1, value) ?? item)
      : item,
  );
}

function fillField(
  current: JsonValue | undefined,
  name: string,
  segments: readonly Segment[],
  depth: number,
  value: JsonValue,
): JsonValue | undefined {
  if (current !== undefined && !isJsonObject(current)) return current;
  const before = current !== undefined && Object.hasOwn(current, name) ? current[name] : undefined;
  const after = fillFrom(before, segments, depth + 1, value);
  if (after === before || after === undefined) return current;
  const filled = { ...current };
  setOwn(filled, name, after);
  return filled;
}

function mapShared(list: JsonArray, change: (item: JsonValue, index: number) => JsonValue): JsonArray {
  const changed = list.map(change);
  return changed.every((item, index) => item === list[index]) ? list : changed;
}
