import {
  isEqual,
  isJsonArray,
  isJsonObject,
  ownValue,
  type JsonObject,
  type JsonValue,
} from '../../json/json.ts';

/** All values at a path, in order; empty if it leads nowhere. */
export type JsonPath = (object: JsonObject) => readonly JsonValue[];

/** The path cannot be evaluated on this object at all; a missing key merely finds nothing. */
class DeadEnd extends Error {}

/**
 * The part of JSONPath that printer columns and selectable fields use: `.spec.a`, `.a[0]`, `.a[-1:]`, `.a[*]`,
 * `.a['b.c']`, `.a.b\.c`, `.a[?(@.type=="Ready")].status`. As in client-go's util/jsonpath with missing keys allowed,
 * an index out of range or a comparison of different types finds nothing at all.
 *
 * @throws SyntaxError if the path has another form
 */
export function compileJsonPath(path: string): JsonPath {
  const steps = parseJsonPath(path);
  return (object) => {
    try {
      return follow(steps, object);
    } catch (error) {
      if (error instanceof DeadEnd) return [];
      throw error;
    }
  };
}

function follow(steps: readonly Step[], value: JsonValue): readonly JsonValue[] {
  let found: readonly JsonValue[] = [value];
  // Null has no content, but is a value itself.
  for (const step of steps) found = found.filter((item) => item !== null).flatMap((item) => take(step, item));
  return found;
}

function take(step: Step, value: JsonValue): readonly JsonValue[] {
  switch (step.kind) {
    case 'field':
      return fieldOf(value, step.name);
    case 'wildcard':
      if (isJsonArray(value)) return value;
      return isJsonObject(value) ? Object.values(value) : [];
    case 'index':
      return slice(listOf(value), step.index, step.index === -1 ? undefined : step.index + 1);
    case 'slice':
      return slice(listOf(value), step.from ?? 0, step.to);
    case 'filter':
      return listOf(value).filter((item) => passes(step.filter, item));
  }
}

function fieldOf(value: JsonValue, name: string): readonly JsonValue[] {
  if (!isJsonObject(value)) return [];
  const found = ownValue(value, name) as JsonValue | undefined; // a field of JSON is JSON
  return found === undefined ? [] : [found];
}

function listOf(value: JsonValue): readonly JsonValue[] {
  if (!isJsonArray(value)) throw new DeadEnd('not a list');
  return value;
}

function slice(list: readonly JsonValue[], from: number, to: number = list.length): readonly JsonValue[] {
  const start = from < 0 ? from + list.length : from;
  const end = to < 0 ? to + list.length : to;
  if (start === end) return [];
  if (start < 0 || start >= list.length || end > list.length || end < start)
    throw new DeadEnd('out of bounds');
  return list.slice(start, end);
}

function passes(filter: Filter, item: JsonValue): boolean {
  if (filter.operator === 'exists') return follow(filter.left, item).length > 0;
  const left = onlyOne(follow(filter.left, item));
  const right = valueOf(filter.right, item);
  if (left === undefined || right === undefined) return false;
  if (basicType(left) !== basicType(right)) throw new DeadEnd('values of different types');
  return compare(filter.operator, left, right);
}

const valueOf = (operand: Operand, item: JsonValue): JsonValue | undefined =>
  operand.kind === 'literal' ? operand.value : onlyOne(follow(operand.steps, item));

function onlyOne(values: readonly JsonValue[]): JsonValue | undefined {
  if (values.length > 1) throw new DeadEnd('only one value can be compared');
  return values[0];
}

/** Go compares integers with integers only. */
const basicType = (value: JsonValue): string =>
  typeof value === 'bigint' || Number.isInteger(value) ? 'integer' : typeof value;

function compare(operator: Comparison, left: JsonValue, right: JsonValue): boolean {
  if (operator === '==') return isEqual(left, right);
  if (operator === '!=') return !isEqual(left, right);
  if (!hasOrder(left) || !hasOrder(right)) throw new DeadEnd('values without an order');
  switch (operator) {
    case '<':
      return left < right;
    case '<=':
      return left <= right;
    case '>':
      return left > right;
    case '>=':
      return left >= right;
  }
}

const hasOrder = (value: JsonValue): value is number | bigint | string =>
  typeof value === 'number' || typeof value === 'bigint' || typeof value === 'string';

/** One step of a JSONPath. */
export type Step =
  | { readonly kind: 'field'; readonly name: string }
  | { readonly kind: 'wildcard' }
  | { readonly kind: 'index'; readonly index: number }
  | { readonly kind: 'slice'; readonly from: number | undefined; readonly to: number | undefined }
  | { readonly kind: 'filter'; readonly filter: Filter };

/** The condition on a list item. */
export type Filter =
  | { readonly operator: 'exists'; readonly left: readonly Step[] }
  | { readonly operator: Comparison; readonly left: readonly Step[]; readonly right: Operand };

export type Comparison = '==' | '!=' | '<' | '<=' | '>' | '>=';

export type Operand =
  | { readonly kind: 'literal'; readonly value: string | number | boolean }
  | { readonly kind: 'path'; readonly steps: readonly Step[] };

type Reader = (match: RegExpExecArray) => readonly Step[];

const numberOr = (text: string | undefined) => (text === undefined || text === '' ? undefined : Number(text));

/** Readers for all kinds of steps; the first match applies. */
const READERS: readonly (readonly [RegExp, Reader])[] = [
  [/\.\*/y, () => [{ kind: 'wildcard' }]],
  [/\[\s*\*\s*\]/y, () => [{ kind: 'wildcard' }]],
  [/\.((?:\\.|[^\s.,[\]$@{}\\])+)/y, ([, name = '']) => [{ kind: 'field', name: name.replaceAll('\\', '') }]],
  // As in client-go, a dot without a backslash ends a name even inside quotes.
  [/\['([^']*)'\]/y, ([, names = '']) => parseJsonPath(`.${names}`)],
  [/\[(-?\d+)\]/y, ([, index]) => [{ kind: 'index', index: Number(index) }]],
  [/\[(-?\d*):(-?\d*)\]/y, ([, from, to]) => [{ kind: 'slice', from: numberOr(from), to: numberOr(to) }]],
  // A closing bracket or parenthesis inside quotes does not end the filter.
  [
    /\[\?\(((?:"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|[^"'()])*)\)\]/y,
    ([, text = '']) => [{ kind: 'filter', filter: parseFilter(text) }],
  ],
];

/** Parses `.spec.list[0].x` into its steps. @throws SyntaxError */
export function parseJsonPath(path: string): readonly Step[] {
  const steps: Step[] = [];
  // `$` is the root, where every path starts.
  let position = path.startsWith('$') ? 1 : 0;
  while (position < path.length) {
    const read = readStep(path, position);
    steps.push(...read.steps);
    position = read.end;
  }
  return steps;
}

function readStep(path: string, position: number): { readonly steps: readonly Step[]; readonly end: number } {
  for (const [pattern, read] of READERS) {
    pattern.lastIndex = position;
    const match = pattern.exec(path);
    const end = pattern.lastIndex; // save it now: reading the match may use the same pattern again
    if (match !== null) return { steps: read(match), end };
  }
  throw new SyntaxError(
    `unrecognized JSONPath ${JSON.stringify(path)} at ${JSON.stringify(path.slice(position))}`,
  );
}

const FILTER = /^\s*@((?:"[^"]*"|'[^']*'|[^=!<>"'])*?)\s*(?:(==|!=|<=|>=|<|>)\s*(.+?)\s*)?$/;

function parseFilter(text: string): Filter {
  const [matched, left = '', operator, right = ''] = FILTER.exec(text) ?? [];
  if (matched === undefined) throw new SyntaxError(`unrecognized filter ${JSON.stringify(text)}`);
  const steps = parseJsonPath(left);
  if (operator === undefined) return { operator: 'exists', left: steps };
  return { operator: operator as Comparison, left: steps, right: parseOperand(right) }; // the pattern matches only operators
}

function parseOperand(text: string): Operand {
  if (text.startsWith('@')) return { kind: 'path', steps: parseJsonPath(text.slice(1)) };
  if (text === 'true' || text === 'false') return { kind: 'literal', value: text === 'true' };
  if (/^-?\d+(?:\.\d+)?$/.test(text)) return { kind: 'literal', value: Number(text) };
  const [, quoted] = /^(["'])((?:\\.|(?!\1)[^\\])*)\1$/.exec(text)?.slice(1) ?? [];
  if (quoted === undefined) throw new SyntaxError(`unrecognized value ${JSON.stringify(text)} in a filter`);
  return { kind: 'literal', value: quoted.replaceAll(/\\(.)/g, '$1') };
}
