import {
  compareText,
  isJsonObject,
  type JsonObject,
  type JsonValue,
  memoizeWeak,
  parseJson,
  stringifyJson,
} from '../../json/json.ts';

/** One step of a field path as normalised FieldsV1 text: `f:` field name, `k:` sorted keys, `v:` set item, `i:` index. */
export type PathElement = string;

export const fieldElement = (name: string): PathElement => `f:${name}`;

export const valueElement = (value: JsonValue): PathElement => `v:${textOf(value)}`;

/** For an item of a list with map keys; `keys` are names and values in any order. */
export const keyElement = (keys: readonly (readonly [string, JsonValue])[]): PathElement =>
  `k:{${keys
    .toSorted(([a], [b]) => compareText(a, b))
    .map(([name, value]) => `${JSON.stringify(name)}:${textOf(value)}`)
    .join(',')}}`;

/** Fast path for strings: only numbers need the exact serialiser. */
const textOf = (value: JsonValue) =>
  typeof value === 'string' ? JSON.stringify(value) : stringifyJson(value);

/** Undefined for unknown kinds of steps, which a later release may write. @throws Error if the text is not a path element */
function parseElement(text: string): PathElement | undefined {
  if (text[1] !== ':') throw new Error(`missing colon: ${text}`);
  const rest = text.slice(2);
  switch (text.charAt(0)) {
    case 'f':
      return text;
    case 'v':
      return valueElement(parseJson(rest));
    case 'k': {
      const keys = parseJson(rest);
      if (!isJsonObject(keys)) throw new Error(`list item keys must be a JSON object: ${text}`);
      return keyElement(Object.entries(keys));
    }
    case 'i':
      if (!/^-?\d+$/.test(rest)) throw new Error(`index must be a non-negative integer: ${text}`);
      return `i:${Number(rest)}`;
    default:
      return undefined;
  }
}

/** The order of FieldsV1: fields by name, list items by keys, set items by value, indices. Numbers are ordered by size. */
function compareElements(a: PathElement, b: PathElement): number {
  const byKind = KINDS.indexOf(a.charAt(0)) - KINDS.indexOf(b.charAt(0));
  if (byKind !== 0 || a === b) return byKind;
  if (a.startsWith('f')) return compareText(a, b);
  const others = valuesIn(b);
  const orders = valuesIn(a).map((value, index) => compareValues(value, others[index]));
  return orders.find((order) => order !== 0) ?? 0;
}

const KINDS = 'fkvi';

function valuesIn(element: PathElement): readonly JsonValue[] {
  const value = parseJson(element.slice(2));
  return isJsonObject(value) ? Object.values(value) : [value];
}

function compareValues(a: JsonValue, b: JsonValue = null): number {
  if (isNumber(a)) return isNumber(b) ? Number(a > b) - Number(a < b) : -1;
  return isNumber(b) ? 1 : compareText(textOf(a), textOf(b));
}

const isNumber = (value: JsonValue): value is number | bigint =>
  typeof value === 'number' || typeof value === 'bigint';

/** As messages print it: `.name`, `[port=80,protocol="TCP"]`, `[="x"]`, `[0]`. */
export function showElement(element: PathElement): string {
  const rest = element.slice(2);
  switch (element.charAt(0)) {
    case 'f':
      return `.${rest}`;
    case 'v':
      return `[=${rest}]`;
    case 'k': {
      const keys = parseJson(rest) as Readonly<Record<string, JsonValue>>; // written by keyElement
      return `[${Object.entries(keys)
        .map(([name, value]) => `${name}=${stringifyJson(value)}`)
        .join(',')}]`;
    }
    default:
      return `[${rest}]`;
  }
}

/** A tree of field paths: a path is a member if its last node has `self`. Immutable: operations share unchanged nodes. */
export interface FieldSet {
  /** Never set at the root: no manager owns the object as a whole. */
  readonly self: boolean;
  readonly children: ReadonlyMap<PathElement, FieldSet>;
}

export const NO_FIELDS: FieldSet = { self: false, children: new Map() };

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

export const isWithin = (a: FieldSet, b: FieldSet): boolean => isEmptySet(difference(a, b));

/** All members as messages print them (`.spec.ports[port=80].name`), parents before their children. */
export function pathsOf({ children }: FieldSet, above = ''): readonly string[] {
  const sorted = inOrder(children);
  return [
    ...sorted.filter(([, { self }]) => self).map(([element]) => above + showElement(element)),
    ...sorted.flatMap(([element, child]) => pathsOf(child, above + showElement(element))),
  ];
}

const inOrder = (children: FieldSet['children']) => [...children].sort(([a], [b]) => compareElements(a, b));

/** Memoised, because versions of an object share managedFields. */
export const readFields = memoizeWeak((fields: JsonObject): FieldSet => ({
  self: false,
  children: readNode(fields).children,
}));

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
export function writeFields({ self, children }: FieldSet): JsonObject {
  const below = inOrder(children).map(([element, child]) => [element, writeFields(child)] as const);
  return Object.fromEntries<JsonValue>(self && below.length > 0 ? [['.', {}], ...below] : below);
}
