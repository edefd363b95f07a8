import { isJsonObject, ownValue, type JsonObject } from '../../json/json.ts';

/** One field of the metadata; undefined if the object, its metadata or the field is missing. */
export function metadataField(object: object | undefined, field: string): unknown {
  const metadata = object === undefined ? undefined : ownValue(object, 'metadata');
  return isJsonObject(metadata) ? ownValue(metadata, field) : undefined;
}

/** A text field of the metadata; undefined if it is missing or empty. */
export function metadataText(object: object | undefined, field: string): string | undefined {
  const value = metadataField(object, field);
  return typeof value === 'string' && value !== '' ? value : undefined;
}

/** Whether the object has a deletionTimestamp. */
export function isBeingDeleted(object: JsonObject): boolean {
  return (metadataField(object, 'deletionTimestamp') ?? undefined) !== undefined;
}

export function labelsOf(object: JsonObject | undefined): Readonly<Record<string, string>> {
  const labels = metadataField(object, 'labels');
  if (!isJsonObject(labels)) return {};
  return Object.fromEntries(
    Object.entries(labels).flatMap(([key, value]) => (typeof value === 'string' ? [[key, value]] : [])),
  );
}
