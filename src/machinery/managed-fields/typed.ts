import { isEqual, isJsonObject, type JsonValue } from '../../json/json.ts';
import { ANYTHING, type Schema } from '../schema/schema.ts';
import { difference, isEmptySet, LEAF, NO_FIELDS, union, type FieldSet } from './field-set.ts';
import { fieldElement, type PathElement } from './path-element.ts';
import {
  childSchema,
  isAtomic,
  isNamed,
  itemsByElement,
  itemSchema,
  listOf,
  mapOf,
  shapeOf,
  valueAt,
  type Shape,
} from './shape.ts';

/** What `after` adds, changes and removes compared with `before`. */
export interface Comparison {
  readonly changed: FieldSet;
  readonly removed: FieldSet;
}

/**
 * The fields of an applied configuration (typed/tofieldset.go): leaves, list items and map keys, but not named fields
 * that contain others.
 *
 * @throws TypedError if a list item lacks its keys
 */
export function fieldsOf(value: JsonValue, schema: Schema): FieldSet {
  switch (shapeOf(value, schema)) {
    case 'leaf':
      return LEAF;
    case 'map':
      return nodeOf(
        Object.entries(mapOf(value)).map(([name, child]) => {
          const below = fieldsOf(child, childSchema(schema, name) ?? ANYTHING);
          const self =
            child === null ||
            (isJsonObject(child) && Object.keys(child).length === 0) ||
            !isNamed(schema, name);
          return [fieldElement(name), self ? asMember(below) : below];
        }),
      );
    case 'list':
      return nodeOf(
        [...itemsByElement(listOf(value), schema)].map(([element, [item, ...more]]) => [
          element,
          item === undefined || more.length > 0 ? LEAF : asMember(fieldsOf(item, itemSchema(schema))),
        ]),
      );
  }
}

const nodeOf = (entries: readonly (readonly [PathElement, FieldSet])[]): FieldSet => ({
  self: false,
  children: new Map(entries.filter(([, child]) => !isEmptySet(child))),
});

const asMember = (set: FieldSet): FieldSet => (set.self ? set : { self: true, children: set.children });

const SAME: Comparison = { changed: NO_FIELDS, removed: NO_FIELDS };

/**
 * The difference between two values of one type (typed/compare.go). An added or removed value includes its parents
 * and all its content.
 *
 * @throws TypedError if a list item lacks its keys
 */
export function compare(
  before: JsonValue | undefined,
  after: JsonValue | undefined,
  schema: Schema,
): Comparison {
  if (before === after) return SAME;
  if (before === undefined)
    return after === undefined ? SAME : { changed: everything(after, schema), removed: NO_FIELDS };
  if (after === undefined) return { changed: NO_FIELDS, removed: everything(before, schema) };
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
  const was = mapOf(before);
  const is = mapOf(after);
  const names = new Set([...Object.keys(was), ...Object.keys(is)]);
  if (names.size === 0) return compareLeaves(before, after); // null, {} and a leaf differ
  const found = collector();
  for (const name of names) {
    const old = valueAt(was, name);
    const now = valueAt(is, name);
    if (old !== now) found.add(fieldElement(name), compare(old, now, childSchema(schema, name) ?? ANYTHING));
  }
  return found.result();
}

function compareLists(before: JsonValue, after: JsonValue, schema: Schema): Comparison {
  const was = itemsByElement(listOf(before), schema);
  const is = itemsByElement(listOf(after), schema);
  const elements = new Set([...was.keys(), ...is.keys()]);
  if (elements.size === 0) return compareLeaves(before, after);
  const found = collector();
  for (const element of elements) {
    found.add(element, compareItems(was.get(element) ?? [], is.get(element) ?? [], itemSchema(schema)));
  }
  return found.result();
}

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

function collector() {
  const changed: [PathElement, FieldSet][] = [];
  const removed: [PathElement, FieldSet][] = [];
  return {
    add: (element: PathElement, below: Comparison): void => {
      if (!isEmptySet(below.changed)) changed.push([element, below.changed]);
      if (!isEmptySet(below.removed)) removed.push([element, below.removed]);
    },
    result: (): Comparison =>
      changed.length + removed.length === 0 ? SAME : { changed: nodeOf(changed), removed: nodeOf(removed) },
  };
}

/** All paths of a value, containers as well as leaves. */
function everything(value: JsonValue, schema: Schema): FieldSet {
  switch (shapeOf(value, schema)) {
    case 'leaf':
      return LEAF;
    case 'map':
      return asMember(
        nodeOf(
          Object.entries(mapOf(value)).map(([name, child]) => [
            fieldElement(name),
            everything(child, childSchema(schema, name) ?? ANYTHING),
          ]),
        ),
      );
    case 'list':
      return asMember(
        nodeOf(
          [...itemsByElement(listOf(value), schema)].map(([element, [item, ...more]]) => [
            element,
            item === undefined || more.length > 0 ? LEAF : everything(item, itemSchema(schema)),
          ]),
        ),
      );
  }
}

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

/**
 * Adapts the set to this schema, where a formerly granular map or list may now be atomic: a manager of parts then
 * owns the whole (typed/reconcile_schema.go).
 */
export function withWholeAtomics(set: FieldSet, schema: Schema): FieldSet {
  let children: Map<PathElement, FieldSet> | undefined;
  for (const [element, child] of set.children) {
    if (child.children.size === 0) continue;
    const below = element.startsWith('f:') ? childSchema(schema, element.slice(2)) : itemSchema(schema);
    if (below === undefined) continue;
    const whole = isAtomic(below) ? LEAF : withWholeAtomics(child, below);
    if (whole !== child) (children ??= new Map(set.children)).set(element, whole);
  }
  return children === undefined ? set : { self: set.self, children };
}

/** Whether `a` is a subset of `b`. */
export const isWithin = (a: FieldSet, b: FieldSet): boolean => isEmptySet(difference(a, b));
