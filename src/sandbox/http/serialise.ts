import { stringifyJson } from '../../json/json.ts';
import type { ApiObject } from '../api-object.ts';

/** The object as JSON text, made of what is kept: one that a hundred watchers see is written once. */
export const textOf = (object: ApiObject): string =>
  `{"kind":${JSON.stringify(object.kind)},"apiVersion":${JSON.stringify(object.apiVersion)},${membersOf(object)}}`;

/** The same without apiVersion and kind: lists of built-in kinds do not repeat them in each item. */
export const itemTextOf = (object: ApiObject): string => `{${membersOf(object)}}`;

const texts = new WeakMap<ApiObject, string>();

/** All members but apiVersion and kind, without the braces. Kept as long as the object. */
function membersOf(object: ApiObject): string {
  const known = texts.get(object);
  if (known !== undefined) return known;
  const text = jsonText({ ...object, apiVersion: undefined, kind: undefined }).slice(1, -1);
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
