import { isEqual, type JsonObject, isJsonObject } from '../../json/json.ts';
import { toJson, withMeta, type ApiObject, type ManagedFieldsEntry } from '../api-object.ts';
import type { Schema } from '../schema/schema.ts';
import { difference, isEmptySet, union, type FieldSet, setOfFields } from './field-set.ts';
import {
  idOf,
  managersOf,
  mapFields,
  managersToStartFrom,
  unlessSame,
  withFewUpdaters,
  withManagers,
  type Manager,
  type Managers,
} from './managers.ts';
import { TypedError } from './shape.ts';
import { compare, withWholeAtomics, type Comparison } from './typed.ts';

/** The writer of a request, with the time and version of the write. */
export interface Writer {
  /** `fieldManager` of the request, or the first part of its User-Agent. */
  readonly manager: string;
  /** The version of the request: `v1`, `apps/v1`. */
  readonly apiVersion: string;
  /** Empty for the main resource. */
  readonly subresource: string;
  /** RFC 3339 with second precision. */
  readonly now: string;
}

export interface RecordedUpdate extends Writer {
  /** Undefined on create. */
  readonly before: ApiObject | undefined;
  /** With managedFields as the client sent them. In the version of the request, as is `before`. */
  readonly after: ApiObject;
  /** The schema of the whole object. */
  readonly schema: Schema;
  /** Top-level fields that this endpoint leaves unchanged, e.g. `status` for most kinds. */
  readonly reset?: readonly string[];
  /**
   * The initial value of a new object. Go structs serialise empty `spec` and `status`, so no manager owns these
   * fields as such; custom resources start empty.
   */
  readonly blank?: JsonObject;
}

/**
 * Updates managedFields after a create, an update or a patch: changed fields belong to the writer.
 * @see k8s.io/apimachinery/pkg/util/managedfields/internal and sigs.k8s.io/structured-merge-diff/v6/merge/update.go
 */
export function recordUpdate({
  before,
  after,
  schema,
  reset = [],
  blank = {},
  ...writer
}: RecordedUpdate): ApiObject {
  const managers = mapFields(managersToStartFrom(before, after, writer.subresource), (fields) =>
    withWholeAtomics(fields, schema),
  );
  // After managedFields were cleared, only an apply starts them again.
  if (managers.size === 0 && before !== undefined) return withManagers(after, managers);
  try {
    const was = before === undefined ? blank : trackedPart(before, reset);
    const comparison = compare(was, trackedPart(after, reset), schema);
    return withManagers(after, changeManagers(managers, comparison, writer));
  } catch (error) {
    if (!(error instanceof TypedError)) throw error;
    return withManagers(after, managersOf(before)); // a problem with managedFields never rejects a write
  }
}

/** The managers after a write with operation Update. */
export function changeManagers(
  managers: Managers,
  { changed, removed }: Comparison,
  writer: Writer,
): Managers {
  const touched = trackedOnly(union(changed, removed));
  if (isEmptySet(touched)) return managers;
  const next = managersWithout(managers, touched);
  const fields = trackedOnly(changed);
  if (!isEmptySet(fields)) {
    const self = managerFor(writer, 'Update', fields);
    const id = idOf(self);
    const previous = next.get(id);
    next.set(id, previous === undefined ? self : { ...self, fields: union(fields, previous.fields) });
  }
  return unlessSame(managers, withFewUpdaters(next));
}

export function managerFor(
  { manager, apiVersion, subresource, now }: Writer,
  operation: Manager['operation'],
  fields: FieldSet,
): Manager {
  return {
    manager: manager === '' ? 'unknown' : manager,
    operation,
    apiVersion,
    subresource,
    time: now,
    fields,
  };
}

/** Removes fields from all managers; managers without fields are dropped. */
export function managersWithout(managers: Managers, fields: FieldSet): Map<string, Manager> {
  const left = new Map<string, Manager>();
  for (const [id, manager] of managers) {
    const rest = difference(manager.fields, fields);
    if (!isEmptySet(rest)) left.set(id, rest === manager.fields ? manager : { ...manager, fields: rest });
  }
  return left;
}

/**
 * Whether a write changed only the times in managedFields. Such a write is a no-op: the object keeps its times and
 * its resourceVersion.
 *
 * @see k8s.io/apiserver/pkg/endpoints/handlers/fieldmanager/equality.go
 */
export function differsOnlyInTimes(before: ApiObject, after: ApiObject): boolean {
  if (before === after) return true;
  if (!isEqual(withoutTimes(before.metadata.managedFields), withoutTimes(after.metadata.managedFields)))
    return false;
  const rest = (object: ApiObject) =>
    toJson(withMeta(object, { managedFields: undefined, resourceVersion: undefined }));
  return isEqual(rest(before), rest(after));
}

const withoutTimes = (entries: readonly ManagedFieldsEntry[] = []) =>
  entries.map((entry) => ({ ...entry, time: undefined }));

/** Fields without managers (k8s.io/apimachinery/pkg/util/managedfields/internal/stripmeta.go). */
const UNTRACKED = setOfFields([
  ['apiVersion'],
  ['kind'],
  ['metadata'],
  ['metadata', 'name'],
  ['metadata', 'namespace'],
  ['metadata', 'creationTimestamp'],
  ['metadata', 'selfLink'],
  ['metadata', 'uid'],
  ['metadata', 'clusterName'],
  ['metadata', 'generation'],
  ['metadata', 'managedFields'],
  ['metadata', 'resourceVersion'],
]);

export const trackedOnly = (fields: FieldSet): FieldSet => difference(fields, UNTRACKED);

/** The part of an object that can have managers: without managedFields and the fields that the endpoint resets. */
export function trackedPart(object: ApiObject, reset: readonly string[]): JsonObject {
  const { metadata, ...rest } = toJson(object);
  const tracked = isJsonObject(metadata) ? withoutFields(metadata, ['managedFields']) : {};
  return withoutFields({ ...rest, metadata: tracked }, reset);
}

export function withoutFields(object: JsonObject, names: readonly string[]): JsonObject {
  if (!names.some((name) => Object.hasOwn(object, name))) return object;
  return Object.fromEntries(Object.entries(object).filter(([name]) => !names.includes(name)));
}
