/** Which fields of an object differ from what a controller wants, and which client has changed them. */
import { isJsonArray, isJsonObject, listIn, objectIn, textIn } from '../json/json.ts';
import { formatPath } from '../json/field-path.ts';
import type { KubeObject } from '../json/kube-object.ts';
import { APPLIED, contains } from './owned-objects.ts';

export type Path = readonly (string | number)[];

const MOST_FIELDS = 3;

/** The first fields of `desired` that `found` lacks or has with another value. Not our own bookkeeping. */
export function differingFields(found: object, desired: object): readonly Path[] {
  const differing: Path[] = [];
  const look = (is: unknown, wanted: unknown, path: Path): void => {
    if (differing.length === MOST_FIELDS || path.at(-1) === APPLIED || contains(is, wanted)) return;
    if (isJsonObject(is) && isJsonObject(wanted))
      for (const [key, value] of Object.entries(wanted)) look(is[key], value, [...path, key]);
    else if (isJsonArray(is) && isJsonArray(wanted) && is.length === wanted.length)
      for (const [index, value] of wanted.entries()) look(is[index], value, [...path, index]);
    else differing.push(path);
  };
  look(found, desired, []);
  return differing;
}

export const showFields = (paths: readonly Path[]): readonly string[] =>
  paths.map((path) => formatPath(path).slice(0, 128));

/** The client other than `own` that owns one of the fields now, and since when. @param object with managedFields */
export function lastWriter(object: KubeObject, paths: readonly Path[], own: string): string | undefined {
  const writers = listIn(object, 'metadata', 'managedFields').filter(
    (entry) => textIn(entry, 'manager') !== own && paths.some((path) => ownsField(entry, path)),
  );
  const [last] = writers.toSorted((a, b) => (textIn(a, 'time') < textIn(b, 'time') ? 1 : -1));
  if (last === undefined) return undefined;
  const manager = textIn(last, 'manager').slice(0, 128) || 'a client without a name';
  return `${manager} (${textIn(last, 'operation')} at ${textIn(last, 'time')})`;
}

/** Items of lists have keys instead of an index here, so the owner of any of them counts. */
function ownsField(entry: unknown, path: Path): boolean {
  const end = path.findIndex((part) => typeof part === 'number');
  const parts = (end < 0 ? path : path.slice(0, end)).map((part) => `f:${part}`);
  let fields = objectIn(entry, 'fieldsV1');
  for (const part of parts) {
    if (!Object.hasOwn(fields, part)) return false;
    fields = objectIn(fields, part);
  }
  return true;
}
