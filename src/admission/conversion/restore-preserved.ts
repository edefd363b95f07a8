/** Restores the values that an annotation preserved, except where the object has changed since. */
import { isEqual, isJsonArray, isJsonObject, type JsonObject, type JsonValue } from '../../json/json.ts';
import { isLabelValue, isQualifiedName } from '../../json/names.ts';
import { fieldAt, fieldIn, withField, withFieldAt, withFields } from './edit.ts';
import type { KeptValue } from './preserved-annotation.ts';
import { isSelected } from './find-lossy.ts';
import { fieldOf, fits, itemOf, prune, type SchemaAt } from './structural-schema.ts';

const OPEN: SchemaAt = { kind: 'open' };

/**
 * Restores each value, unless the steps alone no longer produce the value recorded with it. In that case a user has
 * changed the source fields, and the change takes precedence. A value whose parent is gone is not restored either.
 *
 * Users can write the annotation that contains the values. No value may make the object violate its schema, because one
 * object that cannot be converted fails every list that contains it.
 */
export function putBack(
  object: JsonObject,
  values: readonly KeptValue[],
  schema: JsonObject | undefined,
): JsonObject {
  const at: SchemaAt = schema === undefined ? OPEN : { kind: 'known', schema };
  const marks = values.filter(({ path }) => path[0] === 'metadata');
  const fields = values.filter(({ path }) => path[0] !== 'metadata');
  const changed = putBackIn(object, fields, 0, at);
  return marks.reduce(putBackMark, isJsonObject(changed) ? changed : object);
}

/**
 * Restores all values below one path at once, so that each object and list is copied once.
 *
 * @param depth the number of path keys that lead to `current`
 */
function putBackIn(current: JsonValue, values: readonly KeptValue[], depth: number, at: SchemaAt): JsonValue {
  if (values.length === 0) return current;
  if (isJsonObject(current)) return putBackFields(current, values, depth, at);
  return isJsonArray(current) ? putBackItems(current, values, depth, at) : current;
}

function putBackFields(
  object: JsonObject,
  values: readonly KeptValue[],
  depth: number,
  at: SchemaAt,
): JsonObject {
  const changes = new Map<string, JsonValue | undefined>();
  for (const [key, group] of Map.groupBy(values, ({ path }) => path[depth])) {
    if (typeof key !== 'string') continue;
    const before = fieldIn(object, key);
    const after = putBackAt(before, group, depth, at.kind === 'known' ? fieldOf(at.schema, key) : at);
    if (after !== before) changes.set(key, after);
  }
  return withFields(object, changes);
}

function putBackItems(
  list: readonly JsonValue[],
  values: readonly KeptValue[],
  depth: number,
  at: SchemaAt,
): JsonValue {
  const below = at.kind === 'known' ? itemOf(at.schema) : at;
  const changed = [...list];
  for (const group of Map.groupBy(values, ({ path }) => JSON.stringify(path[depth])).values()) {
    const selector = group[0]?.path[depth];
    if (!isJsonObject(selector)) continue;
    const index = list.findIndex((item) => isSelected(item, selector));
    const before = list[index];
    if (before !== undefined) changed[index] = putBackAt(before, group, depth, below) ?? before;
  }
  return changed.every((item, index) => item === list[index]) ? list : changed;
}

/** A node of the path tree: its own value, and the values below it. */
function putBackAt(
  before: JsonValue | undefined,
  group: readonly KeptValue[],
  depth: number,
  at: SchemaAt,
): JsonValue | undefined {
  const own = group.findLast(({ path }) => path.length === depth + 1);
  if (own !== undefined) return newest(before, own, at);
  return before === undefined ? undefined : putBackIn(before, group, depth + 1, at);
}

/** Restores a label or an annotation. The map may be missing: an empty map of labels or annotations does not exist. */
function putBackMark(object: JsonObject, kept: KeptValue): JsonObject {
  const [, map, key] = kept.path;
  if (typeof map !== 'string' || typeof key !== 'string') return object;
  const before = fieldAt(object, ['metadata', map, key]);
  const after = newest(before, kept, OPEN);
  if (after === before) return object;
  if (after === undefined) return withoutMark(object, map, key);
  const isValid =
    isQualifiedName(key) && typeof after === 'string' && (map !== 'labels' || isLabelValue(after));
  return isValid ? withFieldAt(object, ['metadata', map, key], after) : object;
}

function withoutMark(object: JsonObject, map: string, key: string): JsonObject {
  const metadata = fieldIn(object, 'metadata');
  const marks = fieldIn(metadata, map);
  if (!isJsonObject(metadata) || !isJsonObject(marks)) return object;
  const left = withField(marks, key, undefined);
  return withField(
    object,
    'metadata',
    withField(metadata, map, Object.keys(left).length === 0 ? undefined : left),
  );
}

function newest(
  current: JsonValue | undefined,
  { value, derived }: KeptValue,
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
