import { isJsonObject, type JsonObject, type JsonValue } from '../json/json.ts';
import type { ObjectMeta as CommonMeta } from '../json/kube-object.ts';

/** The part of ObjectMeta that the API server itself uses. Times are RFC 3339 with second precision. */
export interface ObjectMeta extends CommonMeta {
  readonly deletionGracePeriodSeconds?: number;
  readonly managedFields?: readonly ManagedFieldsEntry[];
  /** Accepted, and never stored. */
  readonly selfLink?: string;
}

export interface ManagedFieldsEntry {
  readonly manager: string;
  readonly operation: 'Apply' | 'Update';
  readonly apiVersion: string;
  readonly time?: string;
  readonly fieldsType: 'FieldsV1';
  readonly fieldsV1: JsonObject;
  readonly subresource?: string;
}

/** JSON with apiVersion, kind and metadata. Storage and watches share it, so copy it with `withMeta` or a spread to change it. */
export interface ApiObject {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: ObjectMeta;
  /** Read all other fields with `field`. */
  readonly spec?: JsonValue;
  readonly status?: JsonValue;
}

/** The same value as plain JSON. The cast is safe because every ApiObject comes from {@link ofJson} or from a spread of one. */
export const toJson = (object: ApiObject): JsonObject => object as unknown as JsonObject;

/** @throws Error if apiVersion, kind or metadata is missing; the pipeline checks these first */
export function ofJson(value: JsonValue): ApiObject {
  if (!isJsonObject(value)) throw new Error('not an object');
  const { apiVersion, kind, metadata } = value;
  if (typeof apiVersion !== 'string' || typeof kind !== 'string' || !isJsonObject(metadata)) {
    throw new Error('an object has apiVersion, kind and metadata');
  }
  return value as unknown as ApiObject; // apiVersion, kind and metadata are checked above; the schema checks the rest of metadata
}

export function field(object: ApiObject, name: string): JsonValue | undefined {
  return Object.hasOwn(object, name) ? toJson(object)[name] : undefined;
}

export function withoutField(object: ApiObject, name: 'spec' | 'status'): ApiObject {
  const entries = Object.entries(object).filter(([key]) => key !== name);
  return Object.fromEntries(entries) as unknown as ApiObject; // the required fields are still there
}

export function withMeta(
  object: ApiObject,
  changes: { readonly [K in keyof ObjectMeta]?: ObjectMeta[K] | undefined },
): ApiObject {
  const merged = { ...object.metadata, ...changes };
  const metadata = Object.values(changes).includes(undefined)
    ? Object.fromEntries(Object.entries(merged).filter(([, value]) => value !== undefined))
    : (merged as ObjectMeta); // no value is undefined
  return { ...object, metadata };
}
