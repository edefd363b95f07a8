import { isJsonArray, isJsonObject, type JsonValue } from '../../json/json.ts';

// Some messages of the API server print values and types in Go syntax, and clients show them.

/** A value as `%v` prints it: `map[name:a value:1]`, `[a b]`, `<nil>`. */
export function showGo(value: JsonValue | undefined): string {
  if (value === null || value === undefined) return '<nil>';
  if (isJsonArray(value)) return `[${value.map(showGo).join(' ')}]`;
  if (!isJsonObject(value)) return String(value);
  const entries = Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1));
  return `map[${entries.map(([key, item]) => `${key}:${showGo(item)}`).join(' ')}]`;
}

/** The Go type of a decoded JSON value: `map[string]interface {}`, `int64`. */
export function goTypeOf(value: JsonValue): string {
  if (value === null) return '%!s(<nil>)';
  if (isJsonArray(value)) return '[]interface {}';
  if (isJsonObject(value)) return 'map[string]interface {}';
  if (typeof value === 'string') return 'string';
  if (typeof value === 'boolean') return 'bool';
  return typeof value === 'bigint' || Number.isInteger(value) ? 'int64' : 'float64';
}

function jsonTypeOf(value: JsonValue): string {
  if (value === null) return 'null';
  if (isJsonArray(value)) return 'array';
  if (isJsonObject(value)) return 'object';
  if (typeof value === 'string') return 'string';
  return typeof value === 'boolean' ? 'bool' : 'number';
}

export const cannotDecode = (value: JsonValue, into: string) =>
  `json: cannot unmarshal ${jsonTypeOf(value)} into Go ${into}`;
