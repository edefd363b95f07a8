/** A field of a YAML document: its value, and its line for error messages. */
import { isAlias, isMap, isNode, isScalar, isSeq, type Document } from 'yaml';

import { isJsonArray, isJsonObject, ownValue, type JsonObject, type JsonValue } from '../../../json/json.ts';

type Path = readonly (string | number)[];

export interface YamlField {
  /** Undefined if the field is missing. */
  readonly value: JsonValue | undefined;
  readonly line: number;
  readonly at: (key: string | number) => YamlField;
  readonly report: (message: string) => void;
}

interface YamlSource {
  readonly node: Document.Parsed;
  readonly lineAt: (offset: number) => number;
  /** Reports a problem with its line and path, e.g. `tests[0].expect`. */
  readonly report: (line: number, path: string, message: string) => void;
}

/** @param value of the document, with aliases and merge keys resolved; then of the field at `path` */
export function createField(source: YamlSource, value: JsonValue | undefined, path: Path = []): YamlField {
  const line = lineOf(source, path);
  return {
    value,
    line,
    at: (key) => createField(source, childOf(value, key), [...path, key]),
    report: (message) => source.report(line, formatPath(path), message),
  };
}

function childOf(value: JsonValue | undefined, key: string | number): JsonValue | undefined {
  if (typeof key === 'number') return isJsonArray(value) ? value[key] : undefined;
  // A field of a JSON object is JSON.
  return isJsonObject(value) ? (ownValue(value, key) as JsonValue | undefined) : undefined;
}

/** The line of the deepest part of the path that exists in the document. */
function lineOf({ node, lineAt }: YamlSource, path: Path): number {
  let current: unknown = node.contents;
  let offset = node.contents?.range[0] ?? 0;
  for (const key of path) {
    const here = isAlias(current) ? current.resolve(node) : current;
    const next = stepInto(here, key);
    if (next === undefined) break;
    offset = (isNode(next.start) ? next.start.range?.[0] : undefined) ?? offset;
    current = next.node;
  }
  return lineAt(offset);
}

/** The node below `key`, and the node at which it starts. */
function stepInto(
  node: unknown,
  key: string | number,
): { readonly node: unknown; readonly start: unknown } | undefined {
  if (isSeq(node) && typeof key === 'number') {
    const item = node.items[key];
    return item === undefined ? undefined : { node: item, start: item };
  }
  if (!isMap(node)) return undefined;
  const pair = node.items.find((each) => isScalar(each.key) && String(each.key.value) === String(key));
  return pair && { node: pair.value, start: pair.key };
}

function formatPath(path: Path): string {
  return path
    .map((key, index) => (typeof key === 'number' ? `[${key}]` : index === 0 ? key : `.${key}`))
    .join('');
}

/** A function that reads a value of one type, and reports any other. */
const reader =
  <T extends JsonValue>(isValid: (value: JsonValue) => value is T, problem: string) =>
  ({ value, report }: YamlField): T | undefined => {
    if (value === undefined || isValid(value)) return value;
    report(problem);
    return undefined;
  };

export const readText = reader((value) => typeof value === 'string', 'must be a string');

export const readTexts = reader(
  (value): value is readonly string[] =>
    isJsonArray(value) && value.every((item) => typeof item === 'string'),
  'must be a list of strings',
);

export const readObject = reader(isJsonObject, 'must be an object');

export const readWord = <Word extends string>(field: YamlField, words: readonly Word[]): Word | undefined =>
  reader(
    (value): value is Word => words.some((word) => word === value),
    `must be one of ${words.join(', ')}`,
  )(field);

/** Reads a map; reports keys that are not in `known`. */
export function readMap(field: YamlField, known: readonly string[]): JsonObject | undefined {
  const value = reader(isJsonObject, `must be a map of ${known.join(', ')}`)(field);
  for (const key of Object.keys(value ?? {})) {
    if (!known.includes(key)) field.at(key).report(`unknown key: must be one of ${known.join(', ')}`);
  }
  return value;
}
