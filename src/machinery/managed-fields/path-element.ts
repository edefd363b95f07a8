import { isJsonArray, isJsonObject, parseJson, stringifyJson, type JsonValue } from '../../json/json.ts';

/**
 * One step of a field path as FieldsV1 text, normalised so that equal steps are equal strings: `f:` with a field
 * name, `k:` with the keys of a list item as sorted JSON, `v:` with a set item as JSON, `i:` with an index.
 *
 * @see sigs.k8s.io/structured-merge-diff/v6/fieldpath/serialize-pe.go
 */
export type PathElement = string;

export const fieldElement = (name: string): PathElement => `f:${name}`;

/** For an item of a set. */
export const valueElement = (value: JsonValue): PathElement => `v:${textOf(value)}`;

/** For an item of a list with map keys; `keys` are names and values in any order. */
export const keyElement = (keys: readonly (readonly [string, JsonValue])[]): PathElement =>
  `k:{${keys
    .toSorted(([a], [b]) => compareTexts(a, b))
    .map(([name, value]) => `${JSON.stringify(name)}:${textOf(value)}`)
    .join(',')}}`;

/** Fast path for strings: only numbers need the exact serialiser. */
const textOf = (value: JsonValue) =>
  typeof value === 'string' ? JSON.stringify(value) : stringifyJson(value);

/**
 * Parses a path element from another program. Undefined for unknown kinds of steps, which a later release may write.
 * @throws Error if the text is not a path element
 */
export function parseElement(text: string): PathElement | undefined {
  if (text[1] !== ':') throw new Error(`missing colon: ${text}`);
  const rest = text.slice(2);
  switch (text.charAt(0)) {
    case 'f':
      return text;
    case 'v':
      return valueElement(parseJson(rest));
    case 'k': {
      const keys = parseJson(rest);
      if (!isJsonObject(keys)) throw new Error(`list item keys must be a JSON object: ${text}`);
      return keyElement(Object.entries(keys));
    }
    case 'i':
      if (!/^-?\d+$/.test(rest)) throw new Error(`index must be a non-negative integer: ${text}`);
      return `i:${Number(rest)}`;
    default:
      return undefined;
  }
}

/** The order of FieldsV1: fields by name, list items by keys, set items by value, indices. */
export function compareElements(a: PathElement, b: PathElement): number {
  const byKind = KINDS.indexOf(a.charAt(0)) - KINDS.indexOf(b.charAt(0));
  if (byKind !== 0 || a === b) return byKind;
  if (a.startsWith('f')) return compareTexts(a, b);
  return compareValues(parseJson(a.slice(2)), parseJson(b.slice(2)));
}

/** As messages print it: `.name`, `[port=80,protocol="TCP"]`, `[="x"]`, `[0]`. */
export function showElement(element: PathElement): string {
  const rest = element.slice(2);
  switch (element.charAt(0)) {
    case 'f':
      return `.${rest}`;
    case 'v':
      return `[=${rest}]`;
    case 'k': {
      const keys = parseJson(rest) as Readonly<Record<string, JsonValue>>; // written by keyElement
      return `[${Object.entries(keys)
        .map(([name, value]) => `${name}=${stringifyJson(value)}`)
        .join(',')}]`;
    }
    default:
      return `[${rest}]`;
  }
}

const KINDS = 'fkvi';

const compareTexts = (a: string, b: string) => (a < b ? -1 : a > b ? 1 : 0);

function compareValues(a: JsonValue, b: JsonValue): number {
  if (isNumber(a) && isNumber(b)) return a < b ? -1 : a > b ? 1 : 0;
  if (typeof a === 'string' && typeof b === 'string') return compareTexts(a, b);
  if (typeof a === 'boolean' && typeof b === 'boolean') return Number(a) - Number(b);
  if (isJsonArray(a) && isJsonArray(b)) return compareLists(a, b);
  if (isJsonObject(a) && isJsonObject(b))
    return compareLists(Object.entries(a).flat(), Object.entries(b).flat());
  return rankOf(a) - rankOf(b);
}

function compareLists(a: readonly JsonValue[], b: readonly JsonValue[]): number {
  for (const [index, item] of a.entries()) {
    const other = b[index];
    if (other === undefined) return 1;
    const order = compareValues(item, other);
    if (order !== 0) return order;
  }
  return a.length - b.length;
}

const isNumber = (value: JsonValue): value is number | bigint =>
  typeof value === 'number' || typeof value === 'bigint';

/** The order of values of different types. */
function rankOf(value: JsonValue): number {
  if (isNumber(value)) return 0;
  if (typeof value === 'string') return 1;
  if (typeof value === 'boolean') return 2;
  if (isJsonArray(value)) return 3;
  return value === null ? 5 : 4;
}
