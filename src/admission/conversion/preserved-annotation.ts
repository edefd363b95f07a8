/** The annotations in which an object carries what its version cannot hold. */
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

/** One step from an object to a value in it: a field, or the element of a list with these values in its key fields. */
export type KeptKey = string | JsonObject;

/** A value of another version that the steps alone do not restore. */
export interface KeptValue {
  /** Its path in that version. */
  readonly path: readonly KeptKey[];
  /** Undefined: nothing stands there. */
  readonly value: JsonValue | undefined;
  /**
   * What the steps alone give there on the way back, undefined for nothing. As long as they still do, nobody has changed what it
   * is made of, and `value` holds; afterwards the newer value does.
   */
  readonly derived: JsonValue | undefined;
}

/** By the name of the version whose values they are, as text. */
export type KeptTexts = ReadonlyMap<string, string>;

const PREFIX = 'conversion.gatehouse.dev/';
const ANNOTATIONS = ['metadata', 'annotations'] as const;
/** Paths are walked recursively: deeper than any API is, and far less deep than a stack. */
export const LONGEST_KEPT_PATH = 64;

export const keptKey = (version: string): string => `${PREFIX}${version}`;
export const isKeptKey = (key: string): boolean => key.startsWith(PREFIX);

/** Takes the annotations out of an object, so that steps do not see them. */
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

/** Users who may write the object may write its annotations: an unreadable one counts as absent. */
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

/** The same that steps may change. */
function isOpenToConversion([first, map, key, ...more]: readonly KeptKey[]): boolean {
  if (typeof first !== 'string' || first === 'apiVersion' || first === 'kind') return false;
  if (first !== 'metadata') return true;
  const isMark = (map === 'labels' || map === 'annotations') && typeof key === 'string' && more.length === 0;
  return isMark && !isKeptKey(key);
}
