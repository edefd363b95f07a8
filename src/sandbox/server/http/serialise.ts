import { stringifyJson, parseJson } from '../../../json/json.ts';
import type { ApiObject } from '../../machinery/api-object.ts';
import { stringify } from 'yaml';

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

/**
 * JSON text as YAML, in the API server's way: keys in order, list items not indented, text that older parsers would take for
 * something else in quotes. Long integers keep their value.
 */
export const yamlOf = (json: string): string =>
  stringify(parseJson(json), {
    sortMapEntries: true,
    indentSeq: false,
    lineWidth: 0,
    compat: 'yaml-1.1',
    aliasDuplicateObjects: false,
  });
