import { isJsonArray, isJsonObject, stringifyJson, type JsonValue } from '../../json/json.ts';

/** JSON as Go writes it, with sorted keys: equal values have equal texts. */
export function canonicalJson(value: JsonValue): string {
  if (isJsonArray(value)) return `[${value.map(canonicalJson).join()}]`;
  if (!isJsonObject(value)) return stringifyJson(value);
  const fields = Object.entries(value).sort(([left], [right]) => (left < right ? -1 : 1));
  return `{${fields.map(([key, field]) => `${JSON.stringify(key)}:${canonicalJson(field)}`).join()}}`;
}
