import { isJsonObject, ownValue, valueIn, type JsonObject, type JsonValue } from '../../json/json.ts';

/** Only for stored objects: users can forge the metadata in a request (see `isDeletionPending`). */
export function hasDeletionTimestamp(object: JsonObject): boolean {
  const metadata = ownValue(object, 'metadata'); // not valueIn: every check of every request calls this
  return isJsonObject(metadata) && (ownValue(metadata, 'deletionTimestamp') ?? undefined) !== undefined;
}

/** Returns the labels themselves: a copy for each object of a list would block the event loop for too long. */
export function labelsOf(object: object | undefined): Readonly<Record<string, string>> {
  const labels = valueIn(object, 'metadata', 'labels');
  if (!isJsonObject(labels)) return {};
  if (isOnlyText(labels)) return labels;
  return Object.fromEntries(
    Object.entries(labels).flatMap(([key, value]) => (typeof value === 'string' ? [[key, value]] : [])),
  );
}

function isOnlyText(labels: JsonObject): labels is Readonly<Record<string, string>> {
  for (const key in labels) if (typeof labels[key] !== 'string') return false;
  return true;
}

/** The API server's limit for all annotations of an object together. @see k8s.io/apimachinery pkg/api/validation */
export const MOST_ANNOTATION_BYTES = 256 * 1024;

export function annotationBytes(annotations: JsonValue | undefined): number {
  const entries = isJsonObject(annotations) ? Object.entries(annotations) : [];
  const sizes = entries.map(
    ([key, value]) => Buffer.byteLength(key) + (typeof value === 'string' ? Buffer.byteLength(value) : 0),
  );
  return sizes.reduce((sum, size) => sum + size, 0);
}
