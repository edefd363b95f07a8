/** Finds the fields of an object in the text of its file. */
import { isAlias, isMap, isNode, isScalar, isSeq, type Document, type Node } from 'yaml';

import type { ExpressionPlace } from '../../admission/policy/expressions/explain-cel.ts';
import { tryParsePath } from '../../json/field-path.ts';
import { parseYamlDocuments } from './yaml-text.ts';

/** A position in a file. Both count from 1. */
export interface Spot {
  readonly line: number;
  readonly column: number;
}

/** @param field such as `spec.validate.rules[0].expression` @param place in the expression that the field holds */
export type Locate = (field: string, place?: ExpressionPlace) => Spot | undefined;

/**
 * Parses the text again when it is asked, because most objects have no problem.
 *
 * @param index of the document, from 0
 */
export function createLocate(text: string, index: number): Locate {
  return (field, place) => {
    const { documents, spotAt } = parseYamlDocuments(text);
    const document = documents[index]?.node;
    const node = document === undefined ? undefined : nodeAt(document, keysOf(field));
    const [start, end] = node?.range ?? [];
    if (start === undefined || end === undefined) return undefined;
    if (place === undefined || !isScalar(node) || node.value !== place.expression) return spotAt(start);
    return spotAt(offsetIn(text, start, end, place));
  };
}

const keysOf = (field: string) => tryParsePath(field)?.concrete?.keys ?? [];

/** The value at the path, or the key of the deepest part of it that exists. */
function nodeAt(document: Document.Parsed, keys: readonly (string | number)[]): Node | undefined {
  let current: unknown = document.contents;
  let found: Node | undefined = isNode(current) ? current : undefined;
  for (const [depth, key] of keys.entries()) {
    const here = isAlias(current) ? current.resolve(document) : current;
    const isLast = depth === keys.length - 1;
    if (isSeq(here) && typeof key === 'number') {
      current = here.items[key];
      if (current === undefined) break;
      if (isNode(current)) found = current;
      continue;
    }
    if (!isMap(here)) break;
    const pair = here.items.find((each) => isScalar(each.key) && String(each.key.value) === String(key));
    if (pair === undefined) break;
    current = pair.value;
    const shown = isLast && isScalar(current) ? current : pair.key;
    if (isNode(shown)) found = shown;
  }
  return found;
}

/** The offset of a place in a scalar, whatever its style: quoted, folded or indented. */
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

/** The index of the place in its expression, in UTF-16 units. */
function indexOf({ expression, line, column }: ExpressionPlace): number {
  const lines = expression.split('\n');
  const before = lines.slice(0, line - 1).reduce((sum, one) => sum + one.length + 1, 0);
  const here = Array.from(lines[line - 1] ?? '');
  return before + here.slice(0, column - 1).join('').length;
}

/** The length of one character as YAML writes it. */
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
