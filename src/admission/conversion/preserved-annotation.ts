/** The annotations that preserve what the version of an object cannot hold. */
import {
  isJsonArray,
  isJsonObject,
  ownValue,
  parseJson,
  type JsonObject,
  type JsonValue,
} from '../../json/json.ts';
import { toJsonText } from '../../json/json-text.ts';
import { fieldAt, fieldIn, withField } from './edit.ts';

/** One key of a path: a field name, or an object of key fields that selects a list element. */
export type KeptKey = string | JsonObject;

/** A value of another version that the steps alone do not restore. */
export interface KeptValue {
  /** Its path in that version. */
  readonly path: readonly KeptKey[];
  /** Undefined: the field is absent. */
  readonly value: JsonValue | undefined;
  /**
   * The value that the steps alone produce on the way back; undefined for none. While they still produce it, the object
   * has not changed and `value` applies. Otherwise the newer value applies.
   */
  readonly derived: JsonValue | undefined;
}

/** The values as text, keyed by the name of their version. */
export type KeptTexts = ReadonlyMap<string, string>;

const PREFIX = 'conversion.gatehouse.dev/';
const ANNOTATIONS = ['metadata', 'annotations'] as const;
/** Recursion follows these paths: deeper than any API, and far below the stack limit. */
export const LONGEST_KEPT_PATH = 64;

export const keptKey = (version: string): string => `${PREFIX}${version}`;
export const isKeptKey = (key: string): boolean => key.startsWith(PREFIX);

/** Removes the annotations from an object, so that steps do not see them. */
export function takeKept(object: JsonObject): { readonly clean: JsonObject; readonly kept: KeptTexts } {
  const annotations = fieldAt(object, ANNOTATIONS);
  const keys = isJsonObject(annotations) ? Object.keys(annotations).filter(isKeptKey) : [];
  if (keys.length === 0 || !isJsonObject(annotations)) return { clean: object, kept: new Map() };
  const kept = new Map<string, string>();
  for (const key of keys) {
    const text = ownValue(annotations, key);
    if (typeof text === 'string') kept.set(key.slice(PREFIX.length), text);
  }
  const rest = Object.entries(annotations).filter(([key]) => !isKeptKey(key));
  return { clean: withAnnotations(object, rest.length === 0 ? undefined : Object.fromEntries(rest)), kept };
}

/** The inverse of {@link takeKept}. */
export function putKept(object: JsonObject, kept: KeptTexts): JsonObject {
  if (kept.size === 0) return object;
  const annotations = fieldAt(object, ANNOTATIONS);
  const added = Object.fromEntries([...kept].map(([version, text]) => [keptKey(version), text]));
  return withAnnotations(object, { ...(isJsonObject(annotations) ? annotations : {}), ...added });
}

function withAnnotations(object: JsonObject, annotations: JsonObject | undefined): JsonObject {
  const metadata = fieldIn(object, 'metadata');
  return withField(
    object,
    'metadata',
    withField(isJsonObject(metadata) ? metadata : {}, 'annotations', annotations),
  );
}

export function writeKept(values: readonly KeptValue[]): string {
  return toJsonText(
    values.map(({ path, value, derived }) => ({
      path,
      ...(value === undefined ? {} : { value }),
      ...(derived === undefined ? {} : { derived }),
    })),
  );
}

/** Users who can write the object can write its annotations: an unreadable annotation counts as absent. */
export function readKept(text: string): readonly KeptValue[] {
  let entries: unknown;
  try {
    entries = parseJson(text);
  } catch {
    return [];
  }
  return isJsonArray(entries) ? entries.flatMap(toKeptValue) : [];
}

function toKeptValue(entry: JsonValue): readonly KeptValue[] {
  const path = fieldIn(entry, 'path');
  if (!isJsonArray(path)) return [];
  const keys = path.filter((key) => typeof key === 'string' || isJsonObject(key));
  if (keys.length !== path.length || keys.length > LONGEST_KEPT_PATH || !isOpenToConversion(keys)) return [];
  return [{ path: keys, value: fieldIn(entry, 'value'), derived: fieldIn(entry, 'derived') }];
}

/** Allows the same fields that steps may change. */
function isOpenToConversion([first, map, key, ...more]: readonly KeptKey[]): boolean {
  if (typeof first !== 'string' || first === 'apiVersion' || first === 'kind') return false;
  if (first !== 'metadata') return true;
  const isMark = (map === 'labels' || map === 'annotations') && typeof key === 'string' && more.length === 0;
  return isMark && !isKeptKey(key);
}
