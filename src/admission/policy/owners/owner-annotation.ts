/** Reads and writes an object's owner references, and the annotation that records them in backups. */
import type { OwnerReference } from '../../../json/kube-object.ts';
import { annotationBytes, MOST_ANNOTATION_BYTES } from '../object-metadata.ts';
import { OWNER_RECORD_ANNOTATION, toOwnerReferences } from '../../../api/owner-record.ts';
import { objectIn, textIn, valueIn, type JsonObject, type JsonValue } from '../../../json/json.ts';

/**
 * Undefined if the owner references are malformed: the API server then rejects the object, so there is nothing to
 * record.
 */
export function ownersOf(object: JsonObject): readonly OwnerReference[] | undefined {
  return toOwnerReferences(valueIn(object, 'metadata', 'ownerReferences'));
}

/** The raw value of the annotation, unparsed. */
export function recordTextOf(object: JsonObject): unknown {
  return valueIn(object, 'metadata', 'annotations', OWNER_RECORD_ANNOTATION);
}

/** The name by which a record identifies this object. */
export function selfOf(object: JsonObject): string {
  // Without a name, the API server generates one after admission.
  return textIn(object, 'metadata', 'name') || `${textIn(object, 'metadata', 'generateName')}*`;
}

/** Sets the annotation, or removes it if `text` is undefined. Returns the same object if nothing changes. */
export function withRecord(object: JsonObject, text: string | undefined): JsonObject {
  if (recordTextOf(object) === text) return object;
  const annotations: Record<string, JsonValue> = { ...annotationsOf(object) };
  if (text === undefined) Reflect.deleteProperty(annotations, OWNER_RECORD_ANNOTATION);
  else annotations[OWNER_RECORD_ANNOTATION] = text;
  return withMetadata(object, { annotations });
}

/** Whether the annotation fits within the size limit: it must not make the user's write fail. */
export const hasRoom = (object: JsonObject, text: string): boolean =>
  annotationBytes({ ...annotationsOf(object), [OWNER_RECORD_ANNOTATION]: text }) <= MOST_ANNOTATION_BYTES;

export function withOwners(object: JsonObject, refs: readonly OwnerReference[]): JsonObject {
  return withMetadata(object, { ownerReferences: refs.map((ref) => ({ ...ref })) });
}

function withMetadata(object: JsonObject, change: Readonly<Record<string, JsonValue>>): JsonObject {
  return { ...object, metadata: { ...objectIn(object, 'metadata'), ...change } };
}

const annotationsOf = (object: JsonObject) => objectIn(object, 'metadata', 'annotations');
