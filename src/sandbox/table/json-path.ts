import {
  isEqual,
  isJsonArray,
  isJsonObject,
  ownValue,
  type JsonObject,
  type JsonValue,
} from '../../json/json.ts';

/** The path cannot be evaluated on this object at all; a missing key merely finds nothing. */
class DeadEnd extends Error {}

/** The values to which a path, or one step of it, leads from a value. @throws DeadEnd */
type Follow = (value: JsonValue) => readonly JsonValue[];

/** The JSONPath of columns and selectable fields, such as `.a[?(@.type=="Ready")].status`. */
export function compileJsonPath(path: string): (object: JsonObject) => readonly JsonValue[] {
  const follow = parsePath(path);
  return (object) => {
    try {
      return follow(object);
    } catch (error) {
      if (error instanceof DeadEnd) return [];
      throw error;
    }
  };
}

/** Parses a path such as `.spec.list[0].x`. @throws SyntaxError */
function parsePath(path: string): Follow {
  const steps: Follow[] = [];
  // `$` is the root, where every path starts.
  let position = path.startsWith('$') ? 1 : 0;
  while (position < path.length) {
    const [step, end] = stepAt(path, position);
    steps.push(step);
    position = end;
  }
  return (root) => {
    let found: readonly JsonValue[] = [root];
    // Null lacks content, but is a value itself.
    for (const step of steps) found = found.filter((item) => item !== null).flatMap((item) => step(item));
    return found;
  };
}

function stepAt(path: string, position: number): readonly [step: Follow, end: number] {
  for (const [pattern, stepOf] of STEPS) {
    pattern.lastIndex = position;
    const match = pattern.exec(path);
    const end = pattern.lastIndex; // save it now: reading the match may use the same pattern again
    if (match !== null) return [stepOf(match), end];
  }
  throw new SyntaxError(
    `unrecognized JSONPath ${JSON.stringify(path)} at ${JSON.stringify(path.slice(position))}`,
  );
}

const numberOr = (text: string | undefined) => (text === undefined || text === '' ? undefined : Number(text));

const everything: Follow = (value) => {
  if (isJsonArray(value)) return value;
  return isJsonObject(value) ? Object.values(value) : [];
};

const STEPS: readonly (readonly [RegExp, (match: RegExpExecArray) => Follow])[] = [
  [/\.\*/y, () => everything],
  [/\[\s*\*\s*\]/y, () => everything],
  [/\.((?:\\.|[^\s.,[\]$@{}\\])+)/y, ([, name = '']) => fieldStep(name.replaceAll('\\', ''))],
  // As in client-go, a dot without a backslash ends a name even inside quotes.
  [/\['([^']*)'\]/y, ([, names = '']) => parsePath(`.${names}`)],
  [/\[(-?\d+)\]/y, ([, index]) => sliceStep(Number(index), index === '-1' ? undefined : Number(index) + 1)],
  [/\[(-?\d*):(-?\d*)\]/y, ([, from, to]) => sliceStep(numberOr(from) ?? 0, numberOr(to))],
  // A closing bracket or parenthesis inside quotes does not end the filter.
  [
    /\[\?\(((?:"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|[^"'()])*)\)\]/y,
    ([, text = '']) => {
      const passes = parseFilter(text);
      return (value) => listOf(value).filter(passes);
    },
  ],
];

function fieldStep(name: string): Follow {
  return (value) => {
    const found = isJsonObject(value) ? (ownValue(value, name) as JsonValue | undefined) : undefined; // a field of JSON is JSON
    return found === undefined ? [] : [found];
  };
}

function sliceStep(from: number, to: number | undefined): Follow {
  return (value) => {
    const list = listOf(value);
    const start = from < 0 ? from + list.length : from;
    const end = to === undefined ? list.length : to < 0 ? to + list.length : to;
    if (start === end) return [];
    if (start < 0 || start >= list.length || end > list.length || end < start)
      throw new DeadEnd('out of bounds');
    return list.slice(start, end);
  };
}

function listOf(value: JsonValue): readonly JsonValue[] {
  if (!isJsonArray(value)) throw new DeadEnd('not a list');
  return value;
}

const FILTER = /^\s*@((?:"[^"]*"|'[^']*'|[^=!<>"'])*?)\s*(?:(==|!=|<=|>=|<|>)\s*(.+?)\s*)?$/;

function parseFilter(text: string): (item: JsonValue) => boolean {
  const [matched, left = '', operator, right = ''] = FILTER.exec(text) ?? [];
  if (matched === undefined) throw new SyntaxError(`unrecognized filter ${JSON.stringify(text)}`);
  const follow = parsePath(left);
  if (operator === undefined) return (item) => follow(item).length > 0;
  const operand = parseOperand(right);
  return (item) => {
    const [one, other] = [onlyOne(follow(item)), onlyOne(operand(item))];
    if (one === undefined || other === undefined) return false;
    if (basicType(one) !== basicType(other)) throw new DeadEnd('values of different types');
    return compare(operator, one, other);
  };
}

function parseOperand(text: string): Follow {
  if (text.startsWith('@')) return parsePath(text.slice(1));
  if (text === 'true' || text === 'false') return () => [text === 'true'];
  if (/^-?\d+(?:\.\d+)?$/.test(text)) return () => [Number(text)];
  const [, quoted] = /^(["'])((?:\\.|(?!\1)[^\\])*)\1$/.exec(text)?.slice(1) ?? [];
  if (quoted === undefined) throw new SyntaxError(`unrecognized value ${JSON.stringify(text)} in a filter`);
  return () => [quoted.replaceAll(/\\(.)/g, '$1')];
}

function onlyOne(values: readonly JsonValue[]): JsonValue | undefined {
  if (values.length > 1) throw new DeadEnd('only one value can be compared');
  return values[0];
}

/** Go compares integers with integers only. */
const basicType = (value: JsonValue): string =>
  typeof value === 'bigint' || Number.isInteger(value) ? 'integer' : typeof value;

function compare(operator: string, left: JsonValue, right: JsonValue): boolean {
  if (operator === '==') return isEqual(left, right);
  if (operator === '!=') return !isEqual(left, right);
  if (!hasOrder(left) || !hasOrder(right)) throw new DeadEnd('values without an order');
  if (left === right) return operator.endsWith('=');
  return operator.startsWith('<') ? left < right : left > right;
}

const hasOrder = (value: JsonValue): value is number | bigint | string =>
  typeof value === 'number' || typeof value === 'bigint' || typeof value === 'string';
