/** Reads and writes an object's owner references, and the annotation that records them in backups. */
import type { OwnerReference } from '../../../json/kube-object.ts';
import { OWNER_RECORD_ANNOTATION, toOwnerReferences } from '../../../api/owner-record.ts';
import { isJsonObject, ownValue, type JsonObject, type JsonValue } from '../../../json/json.ts';

/** The API server's limit for all annotations of an object together, keys and values, in bytes. */
const MOST_ANNOTATION_BYTES = 256 * 1024;

/**
 * Undefined if the owner references are malformed: the API server then rejects the object, so there is nothing to
 * record.
 */
export function ownersOf(object: JsonObject): readonly OwnerReference[] | undefined {
  return toOwnerReferences(ownValue(metadataOf(object), 'ownerReferences'));
}

/** The raw value of the annotation, unparsed. */
export function recordTextOf(object: JsonObject): unknown {
  return ownValue(annotationsOf(object), OWNER_RECORD_ANNOTATION);
}

/** The name by which a record identifies this object. */
export function selfOf(object: JsonObject): string {
  const metadata = metadataOf(object);
  const name = ownValue(metadata, 'name');
  if (typeof name === 'string' && name !== '') return name;
  const start = ownValue(metadata, 'generateName');
  return `${typeof start === 'string' ? start : ''}*`; // the API server generates the name after admission
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
export function hasRoom(object: JsonObject, text: string): boolean {
  let bytes = OWNER_RECORD_ANNOTATION.length + Buffer.byteLength(text);
  for (const [key, value] of Object.entries(annotationsOf(object))) {
    if (key === OWNER_RECORD_ANNOTATION || typeof value !== 'string') continue;
    bytes += Buffer.byteLength(key) + Buffer.byteLength(value);
  }
  return bytes <= MOST_ANNOTATION_BYTES;
}

export function withOwners(object: JsonObject, refs: readonly OwnerReference[]): JsonObject {
  return withMetadata(object, { ownerReferences: refs.map((ref) => ({ ...ref })) });
}

function withMetadata(object: JsonObject, change: Readonly<Record<string, JsonValue>>): JsonObject {
  return { ...object, metadata: { ...metadataOf(object), ...change } };
}

function annotationsOf(object: JsonObject): JsonObject {
  const annotations = ownValue(metadataOf(object), 'annotations');
  return isJsonObject(annotations) ? annotations : {};
}

function metadataOf(object: JsonObject): JsonObject {
  const metadata = ownValue(object, 'metadata');
  return isJsonObject(metadata) ? metadata : {};
}
