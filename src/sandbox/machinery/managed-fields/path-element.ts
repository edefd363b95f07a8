import { isJsonArray, isJsonObject, parseJson, stringifyJson, type JsonValue } from '../../../json/json.ts';

/**
 * One step of a field path, in the text of FieldsV1 and normalised, so that equal steps are equal strings: `f:` and the name
 * of a field, `k:` and the keys of a list item as JSON in the order of their names, `v:` and an item of a set as JSON, `i:`
 * and an index.
 *
 * @see sigs.k8s.io/structured-merge-diff/v6/fieldpath/serialize-pe.go
 */
export type PathElement = string;

export const fieldElement = (name: string): PathElement => `f:${name}`;

/** Of an item of a set. */
export const valueElement = (value: JsonValue): PathElement => `v:${textOf(value)}`;

/** Of an item of a list with map keys; `keys` are names and values in any order. */
export const keyElement = (keys: readonly (readonly [string, JsonValue])[]): PathElement =>
  `k:{${keys
    .toSorted(([a], [b]) => compareTexts(a, b))
    .map(([name, value]) => `${JSON.stringify(name)}:${textOf(value)}`)
    .join(',')}}`;

/** Nearly every key is text, which needs no care for big integers. */
const textOf = (value: JsonValue) =>
  typeof value === 'string' ? JSON.stringify(value) : stringifyJson(value);

/**
 * What another program wrote. Undefined for a kind of step that we do not know: a later release may.
 *
 * @throws Error when it is no path element
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
      if (!isJsonObject(keys)) throw new Error(`not the keys of a list item: ${text}`);
      return keyElement(Object.entries(keys));
    }
    case 'i':
      if (!/^-?\d+$/.test(rest)) throw new Error(`not an index: ${text}`);
      return `i:${Number(rest)}`;
    default:
      return undefined;
  }
}

/** The order of FieldsV1: fields by name, then items by their keys, items by value, indices. */
export function compareElements(a: PathElement, b: PathElement): number {
  const byKind = KINDS.indexOf(a.charAt(0)) - KINDS.indexOf(b.charAt(0));
  if (byKind !== 0 || a === b) return byKind;
  if (a.startsWith('f')) return compareTexts(a, b);
  return compareValues(parseJson(a.slice(2)), parseJson(b.slice(2)));
}

/** As messages show it: `.name`, `[port=80,protocol="TCP"]`, `[="x"]`, `[0]`. */
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

/** Values of different types have an order, too. */
function rankOf(value: JsonValue): number {
  if (isNumber(value)) return 0;
  if (typeof value === 'string') return 1;
  if (typeof value === 'boolean') return 2;
  if (isJsonArray(value)) return 3;
  return value === null ? 5 : 4;
}
