/** A place in a YAML document: its value, and the line that a complaint about it should name. */
import { isAlias, isMap, isScalar, isSeq, type Document } from 'yaml';

import { isJsonArray, isJsonObject, ownValue, type JsonObject, type JsonValue } from '../../../json/json.ts';

type Path = readonly (string | number)[];

export interface Cursor {
  /** Undefined where there is nothing. */
  readonly value: JsonValue | undefined;
  readonly line: number;
  readonly at: (key: string | number) => Cursor;
  readonly report: (message: string) => void;
}

export interface CursorParts {
  readonly node: Document.Parsed;
  /** What the document holds, aliases and merge keys resolved. */
  readonly value: JsonValue;
  readonly lineAt: (offset: number) => number;
  /** Told of a problem, with the line and the path of what is wrong, e.g. `tests[0].expect`. */
  readonly report: (line: number, path: string, message: string) => void;
}

export function createCursor(parts: CursorParts): Cursor {
  return cursorAt(parts, [], parts.value);
}

function cursorAt(parts: CursorParts, path: Path, value: JsonValue | undefined): Cursor {
  const line = lineOf(parts, path);
  return {
    value,
    line,
    at: (key) => cursorAt(parts, [...path, key], childOf(value, key)),
    report: (message) => {
      parts.report(line, spell(path), message);
    },
  };
}

function childOf(value: JsonValue | undefined, key: string | number): JsonValue | undefined {
  if (typeof key === 'number') return isJsonArray(value) ? value[key] : undefined;
  return isJsonObject(value) ? (ownValue(value, key) as JsonValue | undefined) : undefined; // a field of JSON is JSON
}

/** Of the deepest part of the path that is written out. */
function lineOf({ node, lineAt }: Pick<CursorParts, 'node' | 'lineAt'>, path: Path): number {
  let current: unknown = node.contents;
  let offset = node.contents?.range[0] ?? 0;
  for (const key of path) {
    const here = isAlias(current) ? current.resolve(node) : current;
    const next = stepInto(here, key);
    if (next === undefined) break;
    offset = next.offset ?? offset;
    current = next.node;
  }
  return lineAt(offset);
}

function stepInto(
  node: unknown,
  key: string | number,
): { readonly node: unknown; readonly offset: number | undefined } | undefined {
  if (isSeq(node) && typeof key === 'number') {
    const item = node.items[key];
    return item === undefined ? undefined : { node: item, offset: offsetOf(item) };
  }
  if (!isMap(node)) return undefined;
  const pair = node.items.find((each) => isScalar(each.key) && String(each.key.value) === String(key));
  return pair === undefined ? undefined : { node: pair.value, offset: offsetOf(pair.key) };
}

function offsetOf(node: unknown): number | undefined {
  const range: unknown =
    typeof node === 'object' && node !== null && 'range' in node ? node.range : undefined;
  return Array.isArray(range) && typeof range[0] === 'number' ? range[0] : undefined;
}

function spell(path: Path): string {
  return path
    .map((key, index) => (typeof key === 'number' ? `[${key}]` : index === 0 ? key : `.${key}`))
    .join('');
}

/** The fields of a map; anything but `known` is a mistake. */
export function readMap(cursor: Cursor, known: readonly string[]): JsonObject | undefined {
  const { value } = cursor;
  if (value === undefined) return undefined;
  if (!isJsonObject(value)) {
    cursor.report(`write a map of ${known.join(', ')}`);
    return undefined;
  }
  for (const key of Object.keys(value)) {
    if (!known.includes(key)) cursor.at(key).report(`there is no such key: write one of ${known.join(', ')}`);
  }
  return value;
}

export function readText(cursor: Cursor): string | undefined {
  const { value } = cursor;
  if (value === undefined || typeof value === 'string') return value;
  cursor.report('write a text');
  return undefined;
}

export function readTexts(cursor: Cursor): readonly string[] | undefined {
  const { value } = cursor;
  if (value === undefined) return undefined;
  if (isJsonArray(value) && value.every((item) => typeof item === 'string')) return value;
  cursor.report('write a list of texts');
  return undefined;
}

export function readObject(cursor: Cursor): JsonObject | undefined {
  const { value } = cursor;
  if (value === undefined || isJsonObject(value)) return value;
  cursor.report('write an object');
  return undefined;
}

export function readWord<Word extends string>(cursor: Cursor, words: readonly Word[]): Word | undefined {
  const { value } = cursor;
  if (value === undefined) return undefined;
  const found = words.find((word) => word === value);
  if (found === undefined) cursor.report(`write one of ${words.join(', ')}`);
  return found;
}
