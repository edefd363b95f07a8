import { stringifyJson, parseJson } from '../../json/json.ts';
import type { ApiObject } from '../../machinery/api-object.ts';
import { stringify } from 'yaml';

/**
 * The object as JSON text. The members are memoised: an object that a hundred watchers receive is serialised once.
 */
export const textOf = (object: ApiObject): string =>
  `{"kind":${JSON.stringify(object.kind)},"apiVersion":${JSON.stringify(object.apiVersion)},${membersOf(object)}}`;

/** The same without apiVersion and kind, which lists of built-in kinds do not repeat. */
export const itemTextOf = (object: ApiObject): string => `{${membersOf(object)}}`;

const texts = new WeakMap<ApiObject, string>();

/** All members except apiVersion and kind, without braces. Memoised by object. */
function membersOf(object: ApiObject): string {
  const known = texts.get(object);
  if (known !== undefined) return known;
  const text = jsonText({ ...object, apiVersion: undefined, kind: undefined }).slice(1, -1);
  texts.set(object, text);
  return text;
}

/** JSON.stringify without a replacer is several times faster, but throws on bigints. */
export function jsonText(value: unknown): string {
  try {
    return JSON.stringify(value);
  } catch {
    return stringifyJson(value);
  }
}

/**
 * JSON text as YAML in the API server's style: sorted keys, list items not indented, ambiguous strings quoted. Long
 * integers stay exact.
 */
export const yamlOf = (json: string): string =>
  stringify(parseJson(json), {
    sortMapEntries: true,
    indentSeq: false,
    lineWidth: 0,
    compat: 'yaml-1.1',
    aliasDuplicateObjects: false,
  });
