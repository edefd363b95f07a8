import { isJsonArray, isJsonObject, stringifyJson, type JsonValue } from '../../json/json.ts';

/** A value as the API server writes it into a column of strings: the way Go prints it. */
export function cellText(value: JsonValue): string {
  if (value === null) return '<no value>';
  if (typeof value === 'number') return numberText(value);
  if (isJsonObject(value) || isJsonArray(value)) return escapeHtml(stringifyJson(sortKeys(value)));
  return String(value);
}

/** Go's `%v`: fractions outside of 0.0001 to a million (not included) get an exponent, which has at least two digits. */
function numberText(value: number): string {
  if (Number.isInteger(value)) return String(value);
  const [mantissa = '', exponent = ''] = value.toExponential().split('e');
  if (Number(exponent) >= -4 && Number(exponent) < 6) return String(value);
  return `${mantissa}e${exponent.slice(0, 1)}${exponent.slice(1).padStart(2, '0')}`;
}

/** Go writes the keys of maps in order. */
function sortKeys(value: JsonValue): JsonValue {
  if (isJsonArray(value)) return value.map(sortKeys);
  if (!isJsonObject(value)) return value;
  const entries = Object.entries(value).toSorted(([left], [right]) => (left < right ? -1 : 1));
  return Object.fromEntries(entries.map(([key, item]) => [key, sortKeys(item)]));
}

/** Go's JSON is safe to put into HTML. */
const escapeHtml = (json: string): string =>
  json.replaceAll(/[<>&]/g, (character) => `\\u00${character.charCodeAt(0).toString(16)}`);
