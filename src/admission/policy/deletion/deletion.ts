/** Requests about an object that is being deleted. */
import { isEqual, listIn, objectIn, type JsonObject, type JsonValue } from '../../../json/json.ts';
import type { AdmissionRequest } from '../../review/request.ts';
import { hasDeletionTimestamp } from '../object-metadata.ts';

type Change = Pick<AdmissionRequest, 'operation' | 'object' | 'oldObject'>;

/**
 * Whether the request changes an object that is being deleted. Only the stored object counts: a user can write any
 * deletionTimestamp into a new object, and the API server keeps it on a create by server-side apply.
 */
export function isDeletionPending({ operation, oldObject }: Omit<Change, 'object'>): boolean {
  return operation === 'UPDATE' && oldObject !== undefined && hasDeletionTimestamp(oldObject);
}

/** Whether the request removes finalizers from an object that is being deleted, and changes nothing else. */
export function isFinalizerRemoval(request: Change): boolean {
  const { object, oldObject } = request;
  if (!isDeletionPending(request) || object === undefined || oldObject === undefined) return false;
  const before = finalizersOf(oldObject);
  return (
    finalizersOf(object).every((name) => before.includes(name)) &&
    isEqual(withoutServerMetadata(object), withoutServerMetadata(oldObject))
  );
}

/**
 * Removes finalizers that the request does not have from the changed object. A mutation that adds a missing finalizer
 * would otherwise undo the removal of it, and the object would never go.
 */
export function withoutAddedFinalizers(request: Change, changed: JsonObject): JsonObject {
  if (!isDeletionPending(request) || request.object === undefined) return changed;
  const asked = finalizersOf(request.object);
  const now = finalizersOf(changed);
  const kept = now.filter((name) => asked.includes(name));
  if (kept.length === now.length) return changed;
  return { ...changed, metadata: { ...objectIn(changed, 'metadata'), finalizers: kept } };
}

/** What the API server writes into metadata itself, and finalizers. */
const NOT_COMPARED: ReadonlySet<string> = new Set([
  'finalizers',
  'managedFields',
  'resourceVersion',
  'generation',
  'uid',
  'selfLink',
  'creationTimestamp',
  'deletionTimestamp',
  'deletionGracePeriodSeconds',
]);

function withoutServerMetadata(object: JsonObject): JsonObject {
  const compared = Object.entries(objectIn(object, 'metadata')).filter(([key]) => !NOT_COMPARED.has(key));
  return { ...object, metadata: Object.fromEntries(compared) };
}

const finalizersOf = (object: JsonObject): readonly JsonValue[] => listIn(object, 'metadata', 'finalizers');
