/** The annotations that preserve the values that a version cannot represent. */
import {
  isJsonArray,
  isJsonObject,
  objectIn,
  jsonIn,
  valueIn,
  isEqual,
  ownValue,
  type JsonObject,
  type JsonValue,
} from '../../json/json.ts';
import { toJsonText } from '../../json/json-text.ts';
import { withField, withoutFieldAt } from './edit.ts';
import { fieldOf, itemOf, listKeysOf, OPEN, schemaOf, type SchemaAt } from './structural-schema.ts';

/** One key of a path: a field name, or an object of key fields that selects a list element. */
type PathKey = string | JsonObject;

export interface PreservedValue {
  readonly path: readonly PathKey[];
  readonly value: JsonValue | undefined;
  /** What the steps alone produce on the way back. While they still do, `value` applies. */
  readonly derived: JsonValue | undefined;
}

const PREFIX = 'conversion.gatehouse.dev/';
const ANNOTATIONS = ['metadata', 'annotations'] as const;
/** Recursion follows these paths: deeper than any API, and far below the stack limit. */
const LONGEST_PATH = 64;

export const annotationOf = (version: string): string => `${PREFIX}${version}`;
export const isPreservedKey = (key: string): boolean => key.startsWith(PREFIX);

/** Removes the annotations, so that steps do not see them; returns their texts by version. */
export function takePreserved(object: JsonObject) {
  const entries = Object.entries(objectIn(object, ...ANNOTATIONS));
  const { ours, rest } = Object.groupBy(entries, ([key]) => (isPreservedKey(key) ? 'ours' : 'rest'));
  if (ours === undefined) return { clean: object, preserved: new Map<string, string>() };
  const texts = ours.flatMap(([key, text]) =>
    typeof text === 'string' ? [[key.slice(PREFIX.length), text] as const] : [],
  );
  const clean =
    rest === undefined
      ? withoutFieldAt(object, ANNOTATIONS)
      : withAnnotations(object, Object.fromEntries(rest));
  return { clean, preserved: new Map(texts) };
}

export function putPreserved(object: JsonObject, preserved: ReadonlyMap<string, string>): JsonObject {
  if (preserved.size === 0) return object;
  const added = Object.fromEntries([...preserved].map(([version, text]) => [annotationOf(version), text]));
  return withAnnotations(object, { ...objectIn(object, ...ANNOTATIONS), ...added });
}

function withAnnotations(object: JsonObject, annotations: JsonObject): JsonObject {
  const changed = withField(objectIn(object, 'metadata'), 'annotations', annotations);
  return withField(object, 'metadata', changed);
}

export const encodePreserved = (values: readonly PreservedValue[]): string =>
  toJsonText(
    values.map(({ path, value, derived }) => ({
      path,
      ...(value === undefined ? {} : { value }),
      ...(derived === undefined ? {} : { derived }),
    })),
  );

/** Users who can write the object can write its annotations, so an unreadable annotation counts as absent. */
export function parsePreserved(text: string): readonly PreservedValue[] {
  const entries = jsonIn(text);
  return isJsonArray(entries) ? entries.flatMap(toPreservedValue) : [];
}

function toPreservedValue(entry: JsonValue): readonly PreservedValue[] {
  const path = valueIn(entry, 'path');
  if (!isJsonArray(path)) return [];
  const keys = path.filter((key) => typeof key === 'string' || isJsonObject(key));
  if (keys.length !== path.length || keys.length > LONGEST_PATH || !isOpenToConversion(keys)) return [];
  return [{ path: keys, value: valueIn(entry, 'value'), derived: valueIn(entry, 'derived') }];
}

/** Allows the same fields that steps may change. */
function isOpenToConversion([first, map, key, ...more]: readonly PathKey[]): boolean {
  if (typeof first !== 'string' || first === 'apiVersion' || first === 'kind') return false;
  if (first !== 'metadata') return true;
  const isMark = (map === 'labels' || map === 'annotations') && typeof key === 'string' && more.length === 0;
  return isMark && !isPreservedKey(key);
}

/** The values of `truth` that a round trip has changed. @param schema names the key fields of lists */
export function findLossy(
  truth: JsonObject,
  derived: JsonObject,
  schema: JsonObject | undefined,
): readonly PreservedValue[] {
  const lost: PreservedValue[] = [];
  const isConverted = (name: string) => name !== 'apiVersion' && name !== 'kind' && name !== 'metadata';
  compareFields(truth, derived, schemaOf(schema), [], lost, isConverted);
  for (const map of ['labels', 'annotations']) {
    const [before, after] = [objectIn(truth, 'metadata', map), objectIn(derived, 'metadata', map)];
    compareFields(before, after, OPEN, ['metadata', map], lost, (key) => !isPreservedKey(key));
  }
  return lost;
}

function compareFields(
  truth: JsonObject,
  derived: JsonObject,
  at: SchemaAt,
  path: readonly PathKey[],
  lost: PreservedValue[],
  counts: (name: string) => boolean = () => true,
): void {
  if (truth === derived) return;
  const added = Object.keys(derived).filter((name) => !Object.hasOwn(truth, name));
  for (const name of [...Object.keys(truth), ...added]) {
    if (!counts(name)) continue;
    compare(valueIn(truth, name), valueIn(derived, name), fieldOf(at, name), [...path, name], lost);
  }
}

function compare(
  value: JsonValue | undefined,
  derived: JsonValue | undefined,
  at: SchemaAt,
  path: readonly PathKey[],
  lost: PreservedValue[],
): void {
  if (value === derived) return;
  const isShallow = path.length < LONGEST_PATH; // below this depth, compare whole values
  if (isShallow && isJsonObject(value) && isJsonObject(derived)) {
    compareFields(value, derived, at, path, lost);
    return;
  }
  if (isShallow && isJsonArray(value) && isJsonArray(derived)) {
    const selectors = selectorsOf(value, derived, listKeysOf(at) ?? ['name']);
    for (const [index, selector] of selectors?.entries() ?? [])
      compare(value[index], derived[index], itemOf(at), [...path, selector], lost);
    if (selectors !== undefined) return;
  }
  if (!isEqual(value, derived)) lost.push({ path, value, derived });
}

/** Undefined if the elements lack unique keys, or if the keys of the lists differ. */
function selectorsOf(
  list: readonly JsonValue[],
  derived: readonly JsonValue[],
  keys: readonly string[],
): readonly JsonObject[] | undefined {
  const selectors = list.map((item) => selectorOf(item, keys)).filter((selector) => selector !== undefined);
  const distinct = new Set(selectors.map((selector) => JSON.stringify(Object.entries(selector))));
  const isUnique = list.length === derived.length && distinct.size === list.length;
  const isSame = isUnique && selectors.every((selector, index) => isSelected(derived[index], selector));
  return isSame ? selectors : undefined;
}

function selectorOf(item: JsonValue, keys: readonly string[]): JsonObject | undefined {
  if (!isJsonObject(item)) return undefined;
  const values = keys.flatMap((key) => {
    const value = valueIn(item, key);
    return typeof value === 'string' || typeof value === 'boolean' || typeof value === 'number'
      ? [[key, value] as const]
      : [];
  });
  return values.length === 0 ? undefined : Object.fromEntries(values);
}

export function isSelected(item: JsonValue | undefined, selector: JsonObject): boolean {
  const keys = Object.keys(selector);
  return (
    isJsonObject(item) &&
    keys.length > 0 &&
    keys.every((key) => ownValue(item, key) === ownValue(selector, key))
  );
}
