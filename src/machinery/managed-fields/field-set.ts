import { isJsonObject, type JsonObject, type JsonValue } from '../../json/json.ts';
import {
  compareElements,
  fieldElement,
  parseElement,
  showElement,
  type PathElement,
} from './path-element.ts';

/**
 * A set of field paths, stored as a tree: a path is a member if its last node has `self` set. Every node has members,
 * except the root of the empty set. Immutable: operations share unchanged nodes and return their first argument
 * itself if nothing changes.
 *
 * @see sigs.k8s.io/structured-merge-diff/v6/fieldpath/set.go
 */
export interface FieldSet {
  /** Never set at the root: no manager owns the object as a whole. */
  readonly self: boolean;
  readonly children: ReadonlyMap<PathElement, FieldSet>;
}

export const NO_FIELDS: FieldSet = { self: false, children: new Map() };

/** A member without children. */
export const LEAF: FieldSet = { self: true, children: new Map() };

export const isEmptySet = ({ self, children }: FieldSet): boolean => !self && children.size === 0;

/** A set of paths through maps; `['metadata', 'name']` is `.metadata.name`. */
export function setOfFields(paths: readonly (readonly string[])[]): FieldSet {
  return paths.reduce((set, path) => {
    const only = path.reduceRight<FieldSet>(
      (child, name) => ({ self: false, children: new Map([[fieldElement(name), child]]) }),
      LEAF,
    );
    return union(set, only);
  }, NO_FIELDS);
}

export function union(a: FieldSet, b: FieldSet): FieldSet {
  if (a === b || isEmptySet(b)) return a;
  if (isEmptySet(a)) return b;
  let children: Map<PathElement, FieldSet> | undefined;
  for (const [element, other] of b.children) {
    const own = a.children.get(element);
    const both = own === undefined ? other : union(own, other);
    if (both !== own) (children ??= new Map(a.children)).set(element, both);
  }
  const self = a.self || b.self;
  if (children === undefined && self === a.self) return a;
  return { self, children: children ?? a.children };
}

/**
 * The members of `a` that are not in `b`. Membership of a path does not imply membership of its parents or children.
 */
export function difference(a: FieldSet, b: FieldSet): FieldSet {
  if (a === b) return NO_FIELDS;
  let children: Map<PathElement, FieldSet> | undefined;
  // Iterate over the smaller side: a change usually touches few of many fields.
  for (const [element, other] of b.children) {
    const own = a.children.get(element);
    if (own === undefined) continue;
    const rest = difference(own, other);
    if (rest === own) continue;
    children ??= new Map(a.children);
    if (isEmptySet(rest)) children.delete(element);
    else children.set(element, rest);
  }
  const self = a.self && !b.self;
  if (children === undefined && self === a.self) return a;
  return { self, children: children ?? a.children };
}

export function intersection(a: FieldSet, b: FieldSet): FieldSet {
  if (a === b) return a;
  const children = new Map<PathElement, FieldSet>();
  for (const [element, own] of a.children) {
    const other = b.children.get(element);
    const common = other === undefined ? NO_FIELDS : intersection(own, other);
    if (!isEmptySet(common)) children.set(element, common);
  }
  return { self: a.self && b.self, children };
}

export function isSameSet(a: FieldSet, b: FieldSet): boolean {
  if (a === b) return true;
  if (a.self !== b.self || a.children.size !== b.children.size) return false;
  for (const [element, own] of a.children) {
    const other = b.children.get(element);
    if (other === undefined || !isSameSet(own, other)) return false;
  }
  return true;
}

/** All members as messages print them (`.spec.ports[port=80].name`), parents before their children. */
export function pathsOf({ children }: FieldSet, above = ''): readonly string[] {
  const sorted = inOrder(children);
  return [
    ...sorted.filter(([, { self }]) => self).map(([element]) => above + showElement(element)),
    ...sorted.flatMap(([element, child]) => pathsOf(child, above + showElement(element))),
  ];
}

const inOrder = (children: FieldSet['children']) => [...children].sort(([a], [b]) => compareElements(a, b));

/** Versions of an object share managedFields by reference, so each value is parsed and serialised once. */
const read = new WeakMap<JsonObject, FieldSet>();
const written = new WeakMap<FieldSet, JsonObject>();

/** @throws Error if `fields` is not valid FieldsV1 */
export function readFields(fields: JsonObject): FieldSet {
  const known = read.get(fields);
  if (known !== undefined) return known;
  const { children } = readNode(fields);
  const set = { self: false, children };
  read.set(fields, set);
  return set;
}

function readNode(fields: JsonValue): FieldSet {
  if (!isJsonObject(fields)) throw new Error('FieldsV1 must be objects');
  const children = new Map<PathElement, FieldSet>();
  for (const [key, value] of Object.entries(fields)) {
    const element = key === '.' ? undefined : parseElement(key);
    if (element !== undefined) children.set(element, readNode(value));
  }
  return { self: Object.hasOwn(fields, '.') || children.size === 0, children };
}

/** The set as FieldsV1, in the order of the API server. */
export function writeFields(set: FieldSet): JsonObject {
  const known = written.get(set);
  if (known !== undefined) return known;
  const fields = writeNode(set);
  written.set(set, fields);
  return fields;
}

function writeNode({ self, children }: FieldSet): JsonObject {
  const below = inOrder(children).map(([element, child]) => [element, writeNode(child)] as const);
  return Object.fromEntries<JsonValue>(self && below.length > 0 ? [['.', {}], ...below] : below);
}
