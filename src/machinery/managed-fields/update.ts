import {
  compareText,
  isEqual,
  isJsonArray,
  isJsonObject,
  type JsonObject,
  type JsonValue,
  ownValue,
} from '../../json/json.ts';
import { type ApiObject, type ManagedFieldsEntry, toJson, withMeta } from '../api-object.ts';
import { text } from '../fields.ts';
import type { Schema } from '../schema/schema.ts';
import {
  difference,
  type FieldSet,
  isEmptySet,
  NO_FIELDS,
  readFields,
  setOfFields,
  union,
  writeFields,
} from './field-set.ts';
import { TypedError } from './shape.ts';
import { compare, type Comparison } from './typed.ts';

/** A parsed entry of managedFields. Its time is absent if a client sent the entry without one. */
export interface Manager extends Omit<ManagedFieldsEntry, 'fieldsType' | 'fieldsV1'> {
  readonly fields: FieldSet;
}

/** Keyed by {@link idOf}. */
export type Managers = ReadonlyMap<string, Manager>;

const NO_MANAGERS: Managers = new Map();

/** The identity of an entry. The text equals the API server's, which sorts conflicts by it. */
export const idOf = ({ manager, operation, apiVersion, subresource }: Manager): string =>
  JSON.stringify({
    manager: manager === '' ? undefined : manager,
    operation,
    apiVersion: operation === 'Apply' ? undefined : apiVersion,
    subresource,
  });

export function managersOf(object: ApiObject | undefined): Managers {
  const entries = object === undefined ? undefined : sentEntries(object);
  return readManagers(entries) ?? NO_MANAGERS;
}

/** The managers in the request if valid, otherwise the live object's: clients that do not know managedFields omit them. */
function managersToStartFrom(live: ApiObject | undefined, sent: ApiObject, subresource: string): Managers {
  const entries = sentEntries(sent);
  const known = managersOf(live);
  if (subresource !== '' || entries === undefined) return known;
  if (isReset(entries)) return NO_MANAGERS;
  const brought = readManagers(entries);
  return brought === undefined || brought.size === 0 ? known : brought;
}

/** Typed as in ApiObject only once stored; before that the value comes from the client. */
function sentEntries(object: ApiObject): JsonValue | undefined {
  const metadata = toJson(object).metadata;
  const entries = isJsonObject(metadata) ? metadata.managedFields : undefined;
  return entries === null ? undefined : entries;
}

const isReset = (entries: JsonValue): boolean =>
  isJsonArray(entries) &&
  (entries.length === 0 ||
    (entries.length === 1 && isJsonObject(entries[0]) && Object.keys(entries[0]).length === 0));

function readManagers(entries: JsonValue | undefined): Managers | undefined {
  if (!isJsonArray(entries)) return undefined;
  const managers = new Map<string, Manager>();
  for (const entry of entries) {
    const manager = isJsonObject(entry) ? readManager(entry) : undefined;
    if (manager === undefined) return undefined;
    managers.set(idOf(manager), manager);
  }
  return managers;
}

function readManager(entry: JsonObject): Manager | undefined {
  const [operation, apiVersion] = [text(entry, 'operation'), text(entry, 'apiVersion')];
  const [subresource, time] = [text(entry, 'subresource'), text(entry, 'time')];
  const fields = readSet(ownValue(entry, 'fieldsV1'));
  if (operation !== 'Apply' && operation !== 'Update') return undefined;
  if (apiVersion === '' || text(entry, 'fieldsType') !== 'FieldsV1' || fields === undefined) return undefined;
  return {
    manager: text(entry, 'manager'),
    operation,
    apiVersion,
    ...(subresource === '' ? {} : { subresource }),
    ...(time === '' ? {} : { time }),
    fields,
  };
}

function readSet(fields: unknown): FieldSet | undefined {
  if (fields === undefined || fields === null) return NO_FIELDS;
  try {
    return isJsonObject(fields) ? readFields(fields) : undefined;
  } catch {
    return undefined; // invalid FieldsV1: the caller falls back to the live object's managers
  }
}

export function withManagers(object: ApiObject, managers: Managers): ApiObject {
  const managedFields =
    managers.size === 0 ? undefined : [...managers.values()].sort(compareManagers).map(entryOf);
  return isEqual(managedFields, object.metadata.managedFields) ? object : withMeta(object, { managedFields });
}

const entryOf = ({ fields, ...manager }: Manager): ManagedFieldsEntry => ({
  ...manager,
  fieldsType: 'FieldsV1',
  fieldsV1: writeFields(fields),
});

/** Apply entries first, then by age (internal/managedfields.go, sortEncodedManagedFields). */
function compareManagers(a: Manager, b: Manager): number {
  return (
    compareText(a.operation, b.operation) ||
    secondsOf(a) - secondsOf(b) ||
    compareText(a.manager, b.manager) ||
    compareText(a.apiVersion, b.apiVersion) ||
    compareText(a.subresource ?? '', b.subresource ?? '')
  );
}

function secondsOf({ time }: Manager): number {
  const milliseconds = time === undefined ? 0 : Date.parse(time);
  return Number.isNaN(milliseconds) ? 0 : Math.floor(milliseconds / 1000);
}

export interface Writer {
  /** `fieldManager` of the request, or the first part of its User-Agent. */
  readonly manager: string;
  readonly apiVersion: string;
  /** Empty for the main resource. */
  readonly subresource: string;
  readonly now: string;
}

export interface RecordedUpdate extends Writer {
  /** Undefined on create. */
  readonly before: ApiObject | undefined;
  /** With managedFields as the client sent them. In the version of the request, as is `before`. */
  readonly after: ApiObject;
  readonly schema: Schema;
  /** Top-level fields that this endpoint leaves unchanged, e.g. `status` for most kinds. */
  readonly reset?: readonly string[];
  /** The initial value of a new object. Go writes an empty `spec` and `status`, so they do not get a manager. */
  readonly blank?: JsonObject;
}

/** Updates managedFields after a create, an update or a patch (merge/update.go): changed fields belong to the writer. */
export function recordUpdate({
  before,
  after,
  schema,
  reset = [],
  blank = {},
  ...writer
}: RecordedUpdate): ApiObject {
  const managers = managersToStartFrom(before, after, writer.subresource);
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
  return next;
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
    ...(subresource === '' ? {} : { subresource }),
    time: now,
    fields,
  };
}

export function managersWithout(managers: Managers, fields: FieldSet): Map<string, Manager> {
  const left = new Map<string, Manager>();
  for (const [id, manager] of managers) {
    const rest = difference(manager.fields, fields);
    if (!isEmptySet(rest)) left.set(id, rest === manager.fields ? manager : { ...manager, fields: rest });
  }
  return left;
}

/** Whether a write changed only the times in managedFields (fieldmanager/equality.go of apiserver). */
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
