/** A field of a YAML document: its value, and its line for error messages. */
import { isAlias, isMap, isScalar, isSeq, type Document } from 'yaml';

import { isJsonArray, isJsonObject, ownValue, type JsonObject, type JsonValue } from '../../../json/json.ts';

type Path = readonly (string | number)[];

export interface YamlField {
  /** Undefined if the field is missing. */
  readonly value: JsonValue | undefined;
  readonly line: number;
  readonly at: (key: string | number) => YamlField;
  readonly report: (message: string) => void;
}

export interface YamlFieldParts {
  readonly node: Document.Parsed;
  /** The value of the document, with aliases and merge keys resolved. */
  readonly value: JsonValue;
  readonly lineAt: (offset: number) => number;
  /** Reports a problem with its line and path, e.g. `tests[0].expect`. */
  readonly report: (line: number, path: string, message: string) => void;
}

export function createRootField(parts: YamlFieldParts): YamlField {
  return fieldAt(parts, [], parts.value);
}

function fieldAt(parts: YamlFieldParts, path: Path, value: JsonValue | undefined): YamlField {
  const line = lineOf(parts, path);
  return {
    value,
    line,
    at: (key) => fieldAt(parts, [...path, key], childOf(value, key)),
    report: (message) => {
      parts.report(line, formatPath(path), message);
    },
  };
}

function childOf(value: JsonValue | undefined, key: string | number): JsonValue | undefined {
  if (typeof key === 'number') return isJsonArray(value) ? value[key] : undefined;
  // A field of a JSON object is JSON.
  return isJsonObject(value) ? (ownValue(value, key) as JsonValue | undefined) : undefined;
}

/** The line of the deepest part of the path that exists in the document. */
function lineOf({ node, lineAt }: Pick<YamlFieldParts, 'node' | 'lineAt'>, path: Path): number {
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

function formatPath(path: Path): string {
  return path
    .map((key, index) => (typeof key === 'number' ? `[${key}]` : index === 0 ? key : `.${key}`))
    .join('');
}

/** Reads a map; reports keys that are not in `known`. */
export function readMap(field: YamlField, known: readonly string[]): JsonObject | undefined {
  const { value } = field;
  if (value === undefined) return undefined;
  if (!isJsonObject(value)) {
    field.report(`must be a map of ${known.join(', ')}`);
    return undefined;
  }
  for (const key of Object.keys(value)) {
    if (!known.includes(key)) field.at(key).report(`unknown key: must be one of ${known.join(', ')}`);
  }
  return value;
}

export function readText(field: YamlField): string | undefined {
  const { value } = field;
  if (value === undefined || typeof value === 'string') return value;
  field.report('must be a string');
  return undefined;
}

export function readTexts(field: YamlField): readonly string[] | undefined {
  const { value } = field;
  if (value === undefined) return undefined;
  if (isJsonArray(value) && value.every((item) => typeof item === 'string')) return value;
  field.report('must be a list of strings');
  return undefined;
}

export function readObject(field: YamlField): JsonObject | undefined {
  const { value } = field;
  if (value === undefined || isJsonObject(value)) return value;
  field.report('must be an object');
  return undefined;
}

export function readWord<Word extends string>(field: YamlField, words: readonly Word[]): Word | undefined {
  const { value } = field;
  if (value === undefined) return undefined;
  const found = words.find((word) => word === value);
  if (found === undefined) field.report(`must be one of ${words.join(', ')}`);
  return found;
}
