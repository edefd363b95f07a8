import { isJsonObject, type JsonObject, type JsonValue } from '../../json/json.ts';
import type { ObjectMeta as CommonMeta } from '../../json/kube-object.ts';

/** The part of ObjectMeta that the API itself acts on; times are RFC 3339 with seconds. */
export interface ObjectMeta extends CommonMeta {
  readonly deletionGracePeriodSeconds?: number;
  readonly managedFields?: readonly ManagedFieldsEntry[];
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

/**
 * An object as the API has it: JSON with apiVersion, kind and metadata. Shared between the storage, watches and caches, so
 * nobody changes one; `withMeta` and spreads make new ones.
 */
export interface ApiObject {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: ObjectMeta;
  /** Everything else: read with `field`. */
  readonly spec?: JsonValue;
  readonly status?: JsonValue;
}

/**
 * The same value as plain JSON, for what works on any JSON (patches, schemas, the wire).
 * Holds because an ApiObject only ever comes from {@link ofJson} or from spreads of one.
 */
export function toJson(object: ApiObject): JsonObject {
  return object as unknown as JsonObject;
}

/**
 * @throws Error when it has no apiVersion, kind or metadata: the pipeline sees to these before anything else does.
 */
export function ofJson(value: JsonValue): ApiObject {
  if (!isJsonObject(value)) throw new Error('not an object');
  const { apiVersion, kind, metadata } = value;
  if (typeof apiVersion !== 'string' || typeof kind !== 'string' || !isJsonObject(metadata)) {
    throw new Error('an object has apiVersion, kind and metadata');
  }
  return value as unknown as ApiObject; // checked as far as the type says; metadata is checked by its schema
}

/** A field beside apiVersion, kind and metadata; undefined when absent. */
export function field(object: ApiObject, name: string): JsonValue | undefined {
  return Object.hasOwn(object, name) ? toJson(object)[name] : undefined;
}

/** The object without one of its fields beside apiVersion, kind and metadata. */
export function withoutField(object: ApiObject, name: 'spec' | 'status'): ApiObject {
  const entries = Object.entries(object).filter(([key]) => key !== name);
  return Object.fromEntries(entries) as unknown as ApiObject; // what an ApiObject must have is still there
}

/** The object with some fields of its metadata set, or dropped where the value is undefined. */
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

/** RFC 3339 with seconds, as metadata has times. */
export const timestamp = (date: Date): string => `${date.toISOString().slice(0, 19)}Z`;
