/** Finds the values that a round trip through another version loses. */
import {
  isEqual,
  isJsonArray,
  isJsonObject,
  objectIn,
  ownValue,
  valueIn,
  type JsonObject,
  type JsonValue,
} from '../../json/json.ts';
import { isPreservedKey, LONGEST_PATH, type PathKey, type PreservedValue } from './preserved-annotation.ts';
import { fieldOf, itemOf, listKeysOf, OPEN, schemaOf, type SchemaAt } from './structural-schema.ts';

/**
 * The values of `truth` that differ in `derived`, the result of a round trip.
 *
 * @param schema the schema of both objects, which names the key fields of lists
 */
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

/**
 * Selectors that identify each element of both lists. Undefined if the elements have no unique keys, or if the keys of
 * the lists differ.
 */
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

/** Whether a list element matches the selector of a {@link PathKey}. */
export function isSelected(item: JsonValue | undefined, selector: JsonObject): boolean {
  const keys = Object.keys(selector);
  return (
    isJsonObject(item) &&
    keys.length > 0 &&
    keys.every((key) => ownValue(item, key) === ownValue(selector, key))
  );
}
