/** Sets and map lists in rules of CRDs (k8s.io/apiserver pkg/cel/common): the left list decides how two lists compare and add. */
import { CelError } from '../cel-error.ts';
import {
  type CelList,
  isDuration,
  isList,
  isMap,
  isTagged,
  isTimestamp,
  isUint,
  mapGet,
  typeNameOf,
} from './values.ts';

export interface ListType {
  /** The keys of the elements of a map list; undefined: a set. */
  readonly keys: readonly string[] | undefined;
  /** Whether it is a part of an object. Such a map list does not find the keys of maps that an expression created. */
  readonly isStored: boolean;
}

const listTypes = new WeakMap<CelList, ListType>();
const storedValues = new WeakSet<object>();

export function typedList(items: CelList, type: ListType): CelList {
  listTypes.set(items, type);
  return items;
}

export const listTypeOf = (list: CelList): ListType | undefined => listTypes.get(list);

export function stored<T extends object>(value: T): T {
  storedValues.add(value);
  return value;
}

export const isStored = (value: object): boolean => storedValues.has(value);

export function isEqualTyped(
  left: CelList,
  right: CelList,
  type: ListType,
  isEqual: (left: unknown, right: unknown) => boolean,
): boolean {
  if (left.length !== right.length) return false;
  const known = new Map(left.map((item) => [keyOf(item, type), item]));
  const seen = new Set<unknown>();
  for (const item of right) {
    const key = keyOf(item, type);
    if (!known.has(key) || (type.keys !== undefined && !isEqual(known.get(key), item))) return false;
    seen.add(key);
  }
  return seen.size === known.size;
}

/** Keeps the elements' positions. A new element with a known key replaces the old one in a map list, and is dropped in a set. */
export function addTyped(left: CelList, right: CelList, { keys }: ListType): CelList {
  const type: ListType = { keys, isStored: false };
  const items = [...left];
  const places = new Map(items.map((item, index) => [keyOf(item, type), index]));
  for (const item of right) {
    const key = keyOf(item, type);
    const place = places.get(key);
    if (place === undefined) {
      if (keys === undefined) places.set(key, items.length);
      items.push(item);
    } else if (keys !== undefined) items[place] = item;
  }
  return typedList(items, type);
}

function keyOf(item: unknown, { keys, isStored }: ListType): unknown {
  if (keys === undefined) {
    if (isList(item) || isMap(item))
      throw new CelError('listSet operations are only supported on lists of scalar values');
    return scalarKey(item);
  }
  if (!isMap(item) || (isStored && item instanceof Map && !storedValues.has(item))) return Symbol('no key');
  const [key, ...others] = keys.map((name) => scalarKey(mapGet(item, name)));
  return others.length === 0 ? key : JSON.stringify([key, ...others].map(written));
}

const written = (key: unknown): unknown => (typeof key === 'bigint' ? { int: String(key) } : (key ?? null));

/** Values of different types are different keys. */
function scalarKey(value: unknown): unknown {
  if (value instanceof Uint8Array) return `bytes ${Buffer.from(value).toString('base64')}`;
  if (!isTagged(value)) return typeof value === 'string' ? `string ${value}` : value;
  if (isUint(value)) return `uint ${value.value}`;
  return isTimestamp(value) || isDuration(value) ? `${typeNameOf(value)} ${value.nanos}` : value;
}
