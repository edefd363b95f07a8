import {
  isEqual,
  isJsonArray,
  isJsonObject,
  listIn,
  objectIn,
  valueIn,
  type JsonValue,
} from '../../json/json.ts';
import { ANYTHING, type Schema } from '../schema/schema.ts';
import {
  fieldElement,
  isEmptySet,
  LEAF,
  NO_FIELDS,
  union,
  type FieldSet,
  type PathElement,
} from './field-set.ts';
import {
  childSchema,
  isNamed,
  itemElement,
  itemsByElement,
  itemSchema,
  shapeOf,
  type Shape,
} from './shape.ts';

export interface Comparison {
  readonly changed: FieldSet;
  readonly removed: FieldSet;
}

/** The leaves, list items and map keys of an applied configuration, but not named fields that contain others. */
export function fieldsOf(value: JsonValue, schema: Schema, all = false): FieldSet {
  const shape = shapeOf(value, schema);
  if (shape === 'leaf') return LEAF;
  const set = nodeOf(shape === 'map' ? fieldsIn(value, schema, all) : itemsIn(value, schema, all));
  return all ? asMember(set) : set;
}

type Children = readonly (readonly [PathElement, FieldSet])[];

const fieldsIn = (value: JsonValue, schema: Schema, all: boolean): Children =>
  Object.entries(objectIn(value)).map(([name, child]) => {
    const below = fieldsOf(child, childSchema(schema, name) ?? ANYTHING, all);
    const isEmpty = child === null || (isJsonObject(child) && Object.keys(child).length === 0);
    return [fieldElement(name), isEmpty || !isNamed(schema, name) ? asMember(below) : below];
  });

const itemsIn = (value: JsonValue, schema: Schema, all: boolean): Children =>
  [...itemsByElement(listIn(value), schema)].map(([element, [item, ...more]]) => [
    element,
    item === undefined || more.length > 0 ? LEAF : asMember(fieldsOf(item, itemSchema(schema), all)),
  ]);

const nodeOf = (entries: Children): FieldSet => ({
  self: false,
  children: new Map(entries.filter(([, child]) => !isEmptySet(child))),
});

const asMember = (set: FieldSet): FieldSet => (set.self ? set : { self: true, children: set.children });

const SAME: Comparison = { changed: NO_FIELDS, removed: NO_FIELDS };

export function compare(
  before: JsonValue | undefined,
  after: JsonValue | undefined,
  schema: Schema,
): Comparison {
  if (before === after) return SAME;
  if (before === undefined)
    return after === undefined ? SAME : { changed: fieldsOf(after, schema, true), removed: NO_FIELDS };
  if (after === undefined) return { changed: NO_FIELDS, removed: fieldsOf(before, schema, true) };
  const was = shapeOf(before, schema);
  const is = shapeOf(after, schema);
  const first = compareAs(was, before, after, schema);
  return was === is ? first : both(first, compareAs(is, before, after, schema));
}

function compareAs(shape: Shape, before: JsonValue, after: JsonValue, schema: Schema): Comparison {
  switch (shape) {
    case 'leaf':
      return compareLeaves(before, after);
    case 'map':
      return compareMaps(before, after, schema);
    case 'list':
      return compareLists(before, after, schema);
  }
}

const compareLeaves = (before: JsonValue, after: JsonValue): Comparison =>
  isEqual(before, after) ? SAME : { changed: LEAF, removed: NO_FIELDS };

function compareMaps(before: JsonValue, after: JsonValue, schema: Schema): Comparison {
  const [was, is] = [objectIn(before), objectIn(after)];
  const names = new Set([...Object.keys(was), ...Object.keys(is)]);
  if (names.size === 0) return compareLeaves(before, after); // null, {} and a leaf differ
  return joined(
    Array.from(names, (name) => [
      fieldElement(name),
      compare(valueIn(was, name), valueIn(is, name), childSchema(schema, name) ?? ANYTHING),
    ]),
  );
}

function compareLists(before: JsonValue, after: JsonValue, schema: Schema): Comparison {
  const was = itemsByElement(listIn(before), schema);
  const is = itemsByElement(listIn(after), schema);
  const elements = new Set([...was.keys(), ...is.keys()]);
  if (elements.size === 0) return compareLeaves(before, after);
  return joined(
    Array.from(elements, (element) => [
      element,
      compareItems(was.get(element) ?? [], is.get(element) ?? [], itemSchema(schema)),
    ]),
  );
}

const joined = (children: readonly (readonly [PathElement, Comparison])[]): Comparison => ({
  changed: nodeOf(children.map(([element, { changed }]) => [element, changed])),
  removed: nodeOf(children.map(([element, { removed }]) => [element, removed])),
});

/** Items with the same keys form one leaf: changing one of them changes all. */
function compareItems(was: readonly JsonValue[], is: readonly JsonValue[], schema: Schema): Comparison {
  if (was.length <= 1 && is.length <= 1) return compare(was[0], is[0], schema);
  if (was.length > 1 && is.length > 1) return compareLeaves(was, is);
  if (was.length > 1) return both(compare(undefined, is[0], schema), { changed: NO_FIELDS, removed: LEAF });
  return both(compare(was[0], undefined, schema), { changed: LEAF, removed: NO_FIELDS });
}

const both = (a: Comparison, b: Comparison): Comparison => ({
  changed: union(a.changed, b.changed),
  removed: union(a.removed, b.removed),
});

/** The set plus every named field that contains members (`EnsureNamedFieldsAreMembers` in fieldpath/set.go). */
export function withNamedFields(set: FieldSet, schema: Schema): FieldSet {
  if (set.children.size === 0) return set;
  const children = [...set.children].map(([element, child]): [PathElement, FieldSet] => {
    const isField = element.startsWith('f:');
    const name = element.slice(2);
    const below = isField ? (childSchema(schema, name) ?? ANYTHING) : itemSchema(schema);
    const named = withNamedFields(child, below);
    return [element, isField && isNamed(schema, name) ? asMember(named) : named];
  });
  return { self: set.self, children: new Map(children) };
}

/** Merges the applied value into the live value and removes nothing (typed/merge.go). Shares what does not differ. */
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
  const old = objectIn(live);
  const wanted = Object.entries(objectIn(applied));
  if (wanted.length === 0 && Object.keys(old).length === 0) return mergeLeaf(live, applied);
  const changes = wanted
    .map(
      ([name, value]) =>
        [name, merge(valueIn(old, name), value, childSchema(schema, name) ?? ANYTHING)] as const,
    )
    .filter(([name, value]) => value !== valueIn(old, name));
  return changes.length === 0 ? live : Object.fromEntries([...Object.entries(old), ...changes]);
}

/** Applied items keep their order. */
function mergeLists(live: JsonValue, applied: JsonValue, schema: Schema): JsonValue {
  const old = listIn(live);
  const wanted = itemsByElement(listIn(applied), schema);
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

/** Removes the members of `set` (typed/remove.go). Like in the API server, a map or list that becomes empty is null. */
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
  const entries = Object.entries(objectIn(value));
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
  const items = listIn(value);
  const kept = items.flatMap((item) => {
    const gone = set.children.get(itemElement(item, schema));
    if (gone === undefined) return [item];
    return gone.self ? [] : [removeItems(item, gone, itemSchema(schema))];
  });
  if (kept.length === 0) return null;
  return kept.length === items.length && kept.every((item, index) => item === items[index]) ? value : kept;
}
