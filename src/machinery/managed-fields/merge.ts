import { isEqual, isJsonArray, isJsonObject, type JsonValue } from '../../json/json.ts';
import { ANYTHING, type Schema } from '../schema/schema.ts';
import type { FieldSet } from './field-set.ts';
import { fieldElement } from './path-element.ts';
import {
  childSchema,
  itemElement,
  itemsByElement,
  itemSchema,
  listOf,
  mapOf,
  shapeOf,
  valueAt,
} from './shape.ts';

/**
 * Merges the applied value into the live value and removes nothing (typed/merge.go). Returns the live value itself if
 * nothing differs.
 *
 * @throws TypedError if a list item lacks its keys
 */
export function merge(live: JsonValue | undefined, applied: JsonValue, schema: Schema): JsonValue {
  if (live === undefined || live === applied) return applied;
  switch (shapeOf(applied, schema)) {
    case 'leaf':
      return mergeLeaf(live, applied);
    case 'map':
      return mergeMaps(live, applied, schema);
    case 'list':
      return mergeLists(live, applied, schema);
  }
}

const mergeLeaf = (live: JsonValue, applied: JsonValue) => (isEqual(live, applied) ? live : applied);

function mergeMaps(live: JsonValue, applied: JsonValue, schema: Schema): JsonValue {
  const old = mapOf(live);
  const wanted = Object.entries(mapOf(applied));
  if (wanted.length === 0 && Object.keys(old).length === 0) return mergeLeaf(live, applied);
  const changes = wanted
    .map(
      ([name, value]) =>
        [name, merge(valueAt(old, name), value, childSchema(schema, name) ?? ANYTHING)] as const,
    )
    .filter(([name, value]) => value !== valueAt(old, name));
  return changes.length === 0 ? live : Object.fromEntries([...Object.entries(old), ...changes]);
}

/**
 * Applied items keep their order. Items that only the live list has keep their predecessors as far as the applied
 * order allows.
 */
function mergeLists(live: JsonValue, applied: JsonValue, schema: Schema): JsonValue {
  const old = listOf(live);
  const wanted = itemsByElement(listOf(applied), schema);
  if (old.length === 0 && wanted.size === 0) return mergeLeaf(live, applied);
  const known = itemsByElement(old, schema);
  const elements = old.map((item) => itemElement(item, schema));
  const shared = [...wanted.keys()].filter((element) => known.has(element));

  const merged: JsonValue[] = [];
  let at = 0; // position in the live list
  let nextShared = 0;
  const takeLiveUpTo = (stop: string | undefined) => {
    for (; at < old.length && elements[at] !== stop; at++) {
      if (!wanted.has(elements[at] ?? '')) merged.push(...old.slice(at, at + 1));
    }
  };
  for (const [element, [item]] of wanted) {
    takeLiveUpTo(shared[nextShared]);
    const [twin, ...more] = known.get(element) ?? [];
    if (item !== undefined)
      merged.push(merge(more.length === 0 ? twin : undefined, item, itemSchema(schema)));
    if (element === shared[nextShared]) {
      nextShared++;
      if (elements[at] === element) at++;
    }
  }
  takeLiveUpTo(undefined);
  return merged.length === old.length && merged.every((item, index) => item === old[index]) ? live : merged;
}

/**
 * The value without the members of `set` (typed/remove.go); returns the value itself if it has none of them. A map or
 * list that loses all its content becomes null, as in the API server.
 */
export function removeItems(value: JsonValue, set: FieldSet, schema: Schema): JsonValue {
  switch (shapeOf(value, schema)) {
    case 'leaf':
      return isJsonObject(value) || isJsonArray(value) ? null : value; // the set has members below: the value was granular when the set was written
    case 'map':
      return removeFields(value, set, schema);
    case 'list':
      return removeListItems(value, set, schema);
  }
}

function removeFields(value: JsonValue, set: FieldSet, schema: Schema): JsonValue {
  const entries = Object.entries(mapOf(value));
  const kept = entries.flatMap(([name, child]): (readonly [string, JsonValue])[] => {
    const gone = set.children.get(fieldElement(name));
    if (gone === undefined) return [[name, child]];
    return gone.self ? [] : [[name, removeItems(child, gone, childSchema(schema, name) ?? ANYTHING)]];
  });
  if (kept.length === 0) return null;
  const isSame =
    kept.length === entries.length && kept.every(([, child], index) => child === entries[index]?.[1]);
  return isSame ? value : Object.fromEntries(kept);
}

function removeListItems(value: JsonValue, set: FieldSet, schema: Schema): JsonValue {
  const items = listOf(value);
  const kept = items.flatMap((item) => {
    const gone = set.children.get(itemElement(item, schema));
    if (gone === undefined) return [item];
    return gone.self ? [] : [removeItems(item, gone, itemSchema(schema))];
  });
  if (kept.length === 0) return null;
  return kept.length === items.length && kept.every((item, index) => item === items[index]) ? value : kept;
}
