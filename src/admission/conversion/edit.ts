/** Copy-on-write edits of JSON: copies only what changes and shares the rest with the original. */
import type { ConcretePath, Segment } from '../../json/field-path.ts';
import { isJsonArray, isJsonObject, valueIn, type JsonObject, type JsonValue } from '../../json/json.ts';

/** `undefined` removes the field. */
export function withField(object: JsonObject, name: string, value: JsonValue | undefined): JsonObject {
  if (valueIn(object, name) === value && (value !== undefined || !Object.hasOwn(object, name))) return object;
  // A computed key and fromEntries define the property `__proto__`. An assignment would set the prototype.
  if (value !== undefined) return { ...object, [name]: value };
  return Object.fromEntries(Object.entries(object).filter(([key]) => key !== name));
}

export function withFields(
  object: JsonObject,
  changes: ReadonlyMap<string, JsonValue | undefined>,
): JsonObject {
  if (changes.size === 0) return object;
  const entries = new Map(Object.entries(object));
  for (const [name, value] of changes) {
    if (value === undefined) entries.delete(name);
    else entries.set(name, value);
  }
  return Object.fromEntries(entries);
}

export class NotAnObject extends Error {
  override readonly name = 'NotAnObject';
  readonly path: readonly string[];
  readonly found: JsonValue;

  constructor(path: readonly string[], found: JsonValue) {
    super('the parent of the field is not an object');
    this.path = path;
    this.found = found;
  }
}

/** Creates missing parents; null counts as missing. @throws NotAnObject */
export function withFieldAt(object: JsonObject, names: readonly string[], value: JsonValue): JsonObject {
  const write = (parent: JsonValue | undefined, depth: number): JsonValue => {
    const name = names[depth];
    if (name === undefined) return value;
    if (parent !== undefined && parent !== null && !isJsonObject(parent))
      throw new NotAnObject(names.slice(0, depth), parent);
    return withField(parent ?? {}, name, write(valueIn(parent ?? undefined, name), depth + 1));
  };
  const written = write(object, 0);
  return isJsonObject(written) ? written : object;
}

/** Removes the field and the parents that it leaves empty, except the first `keep` parents. */
export function withoutFieldAt(
  object: JsonObject,
  names: readonly string[],
  keep = names.length,
): JsonObject {
  const [name, ...rest] = names;
  if (name === undefined) return object;
  if (rest.length === 0) return withField(object, name, undefined);
  const parent = valueIn(object, name);
  if (!isJsonObject(parent)) return object;
  const left = withoutFieldAt(parent, rest, keep - 1);
  const isEmptied = left !== parent && Object.keys(left).length === 0 && keep <= 0;
  return withField(object, name, isEmptied ? undefined : left);
}

/** Changes each value at the path and keeps everything else. An empty path changes the value itself. */
export function mapAt(
  value: JsonValue,
  segments: readonly Segment[],
  change: (value: JsonValue, keys: ConcretePath) => JsonValue,
  keys: ConcretePath = [],
): JsonValue {
  const [segment, ...rest] = segments;
  if (segment === undefined) return change(value, keys);
  switch (segment.kind) {
    case 'field': {
      const child = valueIn(value, segment.name);
      return child === undefined || !isJsonObject(value)
        ? value
        : withField(value, segment.name, mapAt(child, rest, change, [...keys, segment.name]));
    }
    case 'index':
    case 'each': {
      if (!isJsonArray(value)) return value;
      const mapped = value.map((item, index) =>
        segment.kind === 'each' || segment.index === index
          ? mapAt(item, rest, change, [...keys, index])
          : item,
      );
      return mapped.every((item, index) => item === value[index]) ? value : mapped;
    }
  }
}
