/** Where an object keeps its owners, and the copy of them that outlives a backup. */
import type { OwnerReference } from '../../../json/kube-object.ts';
import { OWNER_RECORD_ANNOTATION, toOwnerReferences } from '../../../api/owner-record.ts';
import { isJsonObject, ownValue, type JsonObject, type JsonValue } from '../../../json/json.ts';

/** What the API server takes in all annotations of an object together, keys and values, in bytes. */
const MOST_ANNOTATION_BYTES = 256 * 1024;

/** Undefined when they are not what the API has: then the API server refuses the object, and nothing is to be kept of it. */
export function ownersOf(object: JsonObject): readonly OwnerReference[] | undefined {
  return toOwnerReferences(ownValue(metadataOf(object), 'ownerReferences'));
}

/** The annotation as it stands, whatever it says. */
export function recordTextOf(object: JsonObject): unknown {
  return ownValue(annotationsOf(object), OWNER_RECORD_ANNOTATION);
}

/** What a record of this object calls it. */
export function selfOf(object: JsonObject): string {
  const metadata = metadataOf(object);
  const name = ownValue(metadata, 'name');
  if (typeof name === 'string' && name !== '') return name;
  const start = ownValue(metadata, 'generateName');
  return `${typeof start === 'string' ? start : ''}*`; // the API server makes the name after it has asked us
}

/** The object with this annotation, or without any; the same object when that changes nothing. */
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
