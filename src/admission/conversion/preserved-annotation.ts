/** The annotations that preserve what the version of an object cannot hold. */
import {
  isJsonArray,
  isJsonObject,
  objectIn,
  parseJson,
  valueIn,
  type JsonObject,
  type JsonValue,
} from '../../json/json.ts';
import { toJsonText } from '../../json/json-text.ts';
import { withField, withoutFieldAt } from './edit.ts';

/** One key of a path: a field name, or an object of key fields that selects a list element. */
export type PathKey = string | JsonObject;

/** A value of another version that the steps alone do not restore. */
export interface PreservedValue {
  /** Its path in that version. */
  readonly path: readonly PathKey[];
  /** Undefined: the field is absent. */
  readonly value: JsonValue | undefined;
  /**
   * The value that the steps alone produce on the way back; undefined for none. While they still produce it, the object
   * has not changed and `value` applies. Otherwise the newer value applies.
   */
  readonly derived: JsonValue | undefined;
}

const PREFIX = 'conversion.gatehouse.dev/';
const ANNOTATIONS = ['metadata', 'annotations'] as const;
/** Recursion follows these paths: deeper than any API, and far below the stack limit. */
export const LONGEST_PATH = 64;

export const annotationOf = (version: string): string => `${PREFIX}${version}`;
export const isPreservedKey = (key: string): boolean => key.startsWith(PREFIX);

/**
 * Removes the annotations from an object, so that steps do not see them. Returns their texts by the name of their
 * version.
 */
export function takePreserved(object: JsonObject): {
  readonly clean: JsonObject;
  readonly preserved: ReadonlyMap<string, string>;
} {
  const entries = Object.entries(objectIn(object, ...ANNOTATIONS));
  const { ours, rest } = Object.groupBy(entries, ([key]) => (isPreservedKey(key) ? 'ours' : 'rest'));
  if (ours === undefined) return { clean: object, preserved: new Map() };
  const texts = ours.flatMap(([key, text]) =>
    typeof text === 'string' ? [[key.slice(PREFIX.length), text] as const] : [],
  );
  const clean =
    rest === undefined
      ? withoutFieldAt(object, ANNOTATIONS)
      : withAnnotations(object, Object.fromEntries(rest));
  return { clean, preserved: new Map(texts) };
}

/** The inverse of {@link takePreserved}. */
export function putPreserved(object: JsonObject, preserved: ReadonlyMap<string, string>): JsonObject {
  if (preserved.size === 0) return object;
  const added = Object.fromEntries([...preserved].map(([version, text]) => [annotationOf(version), text]));
  return withAnnotations(object, { ...objectIn(object, ...ANNOTATIONS), ...added });
}

function withAnnotations(object: JsonObject, annotations: JsonObject): JsonObject {
  const changed = withField(objectIn(object, 'metadata'), 'annotations', annotations);
  return withField(object, 'metadata', changed);
}

export function encodePreserved(values: readonly PreservedValue[]): string {
  return toJsonText(
    values.map(({ path, value, derived }) => ({
      path,
      ...(value === undefined ? {} : { value }),
      ...(derived === undefined ? {} : { derived }),
    })),
  );
}

/** Users who can write the object can write its annotations: an unreadable annotation counts as absent. */
export function parsePreserved(text: string): readonly PreservedValue[] {
  let entries: unknown;
  try {
    entries = parseJson(text);
  } catch {
    return [];
  }
  return isJsonArray(entries) ? entries.flatMap(toPreservedValue) : [];
}

function toPreservedValue(entry: JsonValue): readonly PreservedValue[] {
  const path = valueIn(entry, 'path');
  if (!isJsonArray(path)) return [];
  const keys = path.filter((key) => typeof key === 'string' || isJsonObject(key));
  if (keys.length !== path.length || keys.length > LONGEST_PATH || !isOpenToConversion(keys)) return [];
  return [{ path: keys, value: valueIn(entry, 'value'), derived: valueIn(entry, 'derived') }];
}

/** Allows the same fields that steps may change. */
function isOpenToConversion([first, map, key, ...more]: readonly PathKey[]): boolean {
  if (typeof first !== 'string' || first === 'apiVersion' || first === 'kind') return false;
  if (first !== 'metadata') return true;
  const isMark = (map === 'labels' || map === 'annotations') && typeof key === 'string' && more.length === 0;
  return isMark && !isPreservedKey(key);
}
