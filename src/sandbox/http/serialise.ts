import { stringifyJson } from '../../admission/json.ts';
import { toJson, type ApiObject } from '../api-object.ts';

const texts = new WeakMap<ApiObject, string>();

/** The object as JSON text. Kept as long as the object: one that a hundred watchers see is written once. */
export function textOf(object: ApiObject): string {
  const known = texts.get(object);
  if (known !== undefined) return known;
  const text = jsonText(toJson(object));
  texts.set(object, text);
  return text;
}

/** JSON.stringify is several times faster without a replacer, and refuses bigints rather than lose them. */
export function jsonText(value: unknown): string {
  try {
    return JSON.stringify(value);
  } catch {
    return stringifyJson(value);
  }
}
