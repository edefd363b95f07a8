/** YAML with the meaning that it has for kubectl, and with the place of each field. */
import {
  LineCounter,
  parseAllDocuments,
  type Tags,
  isAlias,
  isMap,
  isNode,
  isScalar,
  isSeq,
  type Document,
  type Node,
} from 'yaml';

import { type JsonValue, isJsonArray, isJsonObject, type JsonObject } from '../../json/json.ts';
import type { ExpressionPlace } from '../../admission/policy/expressions/explain-cel.ts';
import { childOf, formatPath, tryParsePath } from '../../json/field-path.ts';

/** Like kubectl: YAML 1.1 without timestamps and sexagesimal numbers (sigs.k8s.io/yaml, goyaml.v2/resolve.go). */
export function parseYamlDocuments(text: string) {
  const counter = new LineCounter();
  const lineAt = (offset: number): number => Math.max(1, counter.linePos(offset).line);
  const parsed = parseAllDocuments(text, {
    version: '1.1',
    customTags: kubernetesTags,
    intAsBigInt: true,
    prettyErrors: false,
    lineCounter: counter,
  });
  const documents = Array.isArray(parsed) ? parsed : [];
  return {
    lineAt,
    spotAt: (offset: number) => {
      const { line, col } = counter.linePos(offset);
      return { line: Math.max(1, line), column: Math.max(1, col) };
    },
    documents: documents.map((node) => ({
      node,
      line: lineAt(node.contents?.range[0] ?? node.range[0]),
      problems: node.errors.map(({ pos, message }) => ({
        line: lineAt(pos[0]),
        message: shortened(message),
      })),
    })),
  };
}

/** In characters: error messages of the parser quote the input. */
const MAX_MESSAGE = 500;

function shortened(message: string): string {
  // The parser is recursive.
  if (message.includes('call stack')) return 'it is nested too deeply';
  return message.length > MAX_MESSAGE ? `${message.slice(0, MAX_MESSAGE)}…` : message;
}

const FOREIGN_TAG = /:(timestamp|binary|omap|pairs|set)$/;

const kubernetesTags = (tags: Tags): Tags =>
  tags.filter((tag) => typeof tag === 'string' || !(FOREIGN_TAG.test(tag.tag) || tag.format === 'TIME'));

/** An int64 beyond 2^53 stays exact, as in `parseJson`. @throws Error for values that JSON cannot represent */
export function jsonOfYaml(value: unknown): JsonValue {
  switch (typeof value) {
    case 'string':
    case 'boolean':
      return value;
    case 'number':
      if (!Number.isFinite(value)) throw new Error(`${String(value)} is not a JSON number`);
      return value;
    case 'bigint': {
      const number = Number(value);
      const isDouble = Number.isSafeInteger(number) || BigInt.asIntN(64, value) !== value;
      return isDouble ? jsonOfYaml(number) : value;
    }
    case 'undefined':
      return null;
    case 'object':
      if (value === null) return null;
      if (Array.isArray(value)) return value.map(jsonOfYaml);
      return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, jsonOfYaml(item)]));
    case 'function':
    case 'symbol':
      throw new Error(`JSON cannot represent a ${typeof value}`);
  }
}

/** @param field such as `spec.validate.rules[0].expression` @param place in the expression that the field holds */
export type Locate = (
  field: string,
  place?: ExpressionPlace,
) => { readonly line: number; readonly column: number } | undefined;

/** Parses the text again on demand, because most objects are without problems. */
export function createLocate(text: string, index: number): Locate {
  return (field, place) => {
    const { documents, spotAt } = parseYamlDocuments(text);
    const document = documents[index]?.node;
    const node =
      document === undefined ? undefined : nodeAt(document, tryParsePath(field)?.concrete?.keys ?? []);
    const [start, end] = node?.range ?? [];
    if (start === undefined || end === undefined) return undefined;
    if (place === undefined || !isScalar(node) || node.value !== place.expression) return spotAt(start);
    return spotAt(offsetIn(text, start, end, place));
  };
}

function nodeAt(document: Document.Parsed, keys: Path): Node | undefined {
  const shown = stepsTo(document, keys).map(({ node, start }, depth) =>
    depth === keys.length - 1 && isScalar(node) ? node : start,
  );
  return [document.contents, ...shown].findLast(isNode);
}

interface Step {
  readonly node: unknown;
  readonly start: unknown;
}

function stepsTo(document: Document.Parsed, keys: Path): readonly Step[] {
  const steps: Step[] = [];
  let current: unknown = document.contents;
  for (const key of keys) {
    const step = stepInto(isAlias(current) ? current.resolve(document) : current, key);
    if (step === undefined) break;
    steps.push(step);
    current = step.node;
  }
  return steps;
}

function stepInto(node: unknown, key: string | number): Step | undefined {
  if (isSeq(node) && typeof key === 'number') {
    const item = node.items[key];
    return item === undefined ? undefined : { node: item, start: item };
  }
  if (!isMap(node)) return undefined;
  const pair = node.items.find((each) => isScalar(each.key) && String(each.key.value) === String(key));
  return pair && { node: pair.value, start: pair.key };
}

function offsetIn(text: string, start: number, end: number, place: ExpressionPlace): number {
  const target = indexOf(place);
  const style = text[start] ?? '';
  const isBlock = style === '|' || style === '>';
  let at = isBlock ? text.indexOf('\n', start) + 1 : style === '"' || style === "'" ? start + 1 : start;
  for (const [index, wanted] of place.expression
    .slice(0, target + 1)
    .split('')
    .entries()) {
    if (/\s/.test(wanted)) continue;
    while (at < end && !startsHere(text, at, wanted, style)) at += lengthAt(text, at, style);
    if (index === target) return at;
    at += lengthAt(text, at, style);
  }
  return Math.min(at, end);
}

function indexOf({ expression, line, column }: ExpressionPlace): number {
  const lines = expression.split('\n');
  const before = lines.slice(0, line - 1).reduce((sum, one) => sum + one.length + 1, 0);
  const here = Array.from(lines[line - 1] ?? '');
  return before + here.slice(0, column - 1).join('').length;
}

function lengthAt(text: string, at: number, style: string): number {
  const isEscape = (style === '"' && text[at] === '\\') || (style === "'" && text.startsWith("''", at));
  return isEscape ? 2 : 1;
}

const ESCAPED_SPACE = /^\\[ntr \n]/;

function startsHere(text: string, at: number, wanted: string, style: string): boolean {
  const isEscape = lengthAt(text, at, style) === 2;
  if (isEscape && ESCAPED_SPACE.test(text.slice(at, at + 2))) return false;
  return text[isEscape ? at + 1 : at] === wanted;
}

type Path = readonly (string | number)[];

export interface YamlField {
  readonly value: JsonValue | undefined;
  readonly line: number;
  readonly at: (key: string | number) => YamlField;
  readonly report: (message: string) => void;
}

interface YamlSource {
  readonly node: Document.Parsed;
  readonly lineAt: (offset: number) => number;
  readonly report: (line: number, path: string, message: string) => void;
}

/** @param value of the document, with aliases and merge keys resolved; then of the field at `path` */
export function createField(source: YamlSource, value: JsonValue | undefined, path: Path = []): YamlField {
  const line = lineOf(source, path);
  return {
    value,
    line,
    // A field of a JSON object is JSON.
    at: (key) => createField(source, childOf(value, key) as JsonValue | undefined, [...path, key]),
    report: (message) => source.report(line, formatPath(path), message),
  };
}

function lineOf({ node, lineAt }: YamlSource, path: Path): number {
  const starts = [node.contents, ...stepsTo(node, path).map(({ start }) => start)];
  const offsets = starts.flatMap((start) => (isNode(start) && start.range ? [start.range[0]] : []));
  return lineAt(offsets.at(-1) ?? 0);
}

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

export function readMap(field: YamlField, known: readonly string[]): JsonObject | undefined {
  const value = reader(isJsonObject, `must be a map of ${known.join(', ')}`)(field);
  for (const key of Object.keys(value ?? {})) {
    if (!known.includes(key)) field.at(key).report(`unknown key: must be one of ${known.join(', ')}`);
  }
  return value;
}
