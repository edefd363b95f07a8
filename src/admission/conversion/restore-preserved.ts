/** Restores the values that an annotation preserved, except where the object has changed since. */
import {
  isEqual,
  isJsonArray,
  isJsonObject,
  valueIn,
  type JsonObject,
  type JsonValue,
} from '../../json/json.ts';
import { isLabelValue, isQualifiedName } from '../../json/names.ts';
import { withFieldAt, withFields, withoutFieldAt } from './edit.ts';
import type { PreservedValue } from './preserved-annotation.ts';
import { isSelected } from './find-lossy.ts';
import { fieldOf, fits, itemOf, OPEN, prune, schemaOf, type SchemaAt } from './structural-schema.ts';

/**
 * Restores each value, unless the steps alone no longer produce the value recorded with it. In that case a user has
 * changed the source fields, and the change takes precedence. A value whose parent is gone is not restored either.
 *
 * Users can write the annotation that contains the values. No value may make the object violate its schema, because one
 * object that cannot be converted fails every list that contains it.
 */
export function restorePreserved(
  object: JsonObject,
  values: readonly PreservedValue[],
  schema: JsonObject | undefined,
): JsonObject {
  const marks = values.filter(({ path }) => path[0] === 'metadata');
  const fields = values.filter(({ path }) => path[0] !== 'metadata');
  const changed = restoreBelow(object, fields, 0, schemaOf(schema));
  return marks.reduce(restoreMark, isJsonObject(changed) ? changed : object);
}

/**
 * Restores all values below one path at once, so that each object and list is copied once.
 *
 * @param depth the number of path keys that lead to `current`
 */
function restoreBelow(
  current: JsonValue,
  values: readonly PreservedValue[],
  depth: number,
  at: SchemaAt,
): JsonValue {
  if (values.length === 0) return current;
  if (isJsonObject(current)) return restoreFields(current, values, depth, at);
  return isJsonArray(current) ? restoreItems(current, values, depth, at) : current;
}

function restoreFields(
  object: JsonObject,
  values: readonly PreservedValue[],
  depth: number,
  at: SchemaAt,
): JsonObject {
  const changes = new Map<string, JsonValue | undefined>();
  for (const [key, group] of Map.groupBy(values, ({ path }) => path[depth])) {
    if (typeof key !== 'string') continue;
    const before = valueIn(object, key);
    const after = restoreAt(before, group, depth, fieldOf(at, key));
    if (after !== before) changes.set(key, after);
  }
  return withFields(object, changes);
}

function restoreItems(
  list: readonly JsonValue[],
  values: readonly PreservedValue[],
  depth: number,
  at: SchemaAt,
): JsonValue {
  const below = itemOf(at);
  const changed = [...list];
  for (const group of Map.groupBy(values, ({ path }) => JSON.stringify(path[depth])).values()) {
    const selector = group[0]?.path[depth];
    if (!isJsonObject(selector)) continue;
    const index = list.findIndex((item) => isSelected(item, selector));
    const before = list[index];
    if (before !== undefined) changed[index] = restoreAt(before, group, depth, below) ?? before;
  }
  return changed.every((item, index) => item === list[index]) ? list : changed;
}

/** A node of the path tree: its own value, and the values below it. */
function restoreAt(
  before: JsonValue | undefined,
  group: readonly PreservedValue[],
  depth: number,
  at: SchemaAt,
): JsonValue | undefined {
  const own = group.findLast(({ path }) => path.length === depth + 1);
  if (own !== undefined) return newest(before, own, at);
  return before === undefined ? undefined : restoreBelow(before, group, depth + 1, at);
}

/** Restores a label or an annotation. The map may be missing: an empty map of labels or annotations does not exist. */
function restoreMark(object: JsonObject, kept: PreservedValue): JsonObject {
  const [, map, key] = kept.path;
  if (typeof map !== 'string' || typeof key !== 'string') return object;
  const before = valueIn(object, 'metadata', map, key);
  const after = newest(before, kept, OPEN);
  if (after === before) return object;
  if (after === undefined) return withoutFieldAt(object, ['metadata', map, key], 1);
  const isValid =
    isQualifiedName(key) && typeof after === 'string' && (map !== 'labels' || isLabelValue(after));
  return isValid ? withFieldAt(object, ['metadata', map, key], after) : object;
}

function newest(
  current: JsonValue | undefined,
  { value, derived }: PreservedValue,
  at: SchemaAt,
): JsonValue | undefined {
  // Ignore what the API server drops: it was absent when the value was preserved.
  const stored = current === undefined ? undefined : prune(current, at);
  if (isEqual(stored, derived)) return value === undefined || fits(value, at) ? value : current;
  if (!isJsonArray(current) || !isJsonArray(stored)) return current;
  if (!isJsonArray(derived) || !isJsonArray(value)) return current;
  const merged = mergeLists(current, stored, { derived, value });
  return fits(merged, at) ? merged : current;
}

/** The limit of elements to compare between the common start and the common end. */
const MOST_COMPARED = 64;

/**
 * Restores the source of each element that is unchanged since the list was preserved. Keeps new and changed elements.
 *
 * @param stored `current` as the API server stores it
 */
function mergeLists(
  current: readonly JsonValue[],
  stored: readonly JsonValue[],
  { derived, value }: { readonly derived: readonly JsonValue[]; readonly value: readonly JsonValue[] },
): readonly JsonValue[] {
  if (derived.length !== value.length) return current;
  const shorter = Math.min(stored.length, derived.length);
  let start = 0;
  while (start < shorter && isEqual(stored[start], derived[start])) start += 1;
  let end = 0;
  while (end < shorter - start && isEqual(stored.at(-1 - end), derived.at(-1 - end))) end += 1;

  const grown = stored.length - derived.length;
  const left = [...derived.keys()].slice(start, derived.length - end);
  const isShort = left.length <= MOST_COMPARED && stored.length - start - end <= MOST_COMPARED;
  return current.map((item, index) => {
    if (index < start) return value[index] ?? item;
    if (index >= stored.length - end) return value[index - grown] ?? item;
    if (!isShort) return item;
    const found = left.findIndex((place) => isEqual(derived[place], stored[index]));
    const [place] = found === -1 ? [] : left.splice(found, 1);
    return place === undefined ? item : (value[place] ?? item);
  });
}
