import {
  isEqual,
  isJsonArray,
  isJsonObject,
  ownValue,
  type JsonObject,
  type JsonValue,
} from '../../json/json.ts';
import { toJson, withMeta, type ApiObject, type ManagedFieldsEntry } from '../api-object.ts';
import { isSameSet, NO_FIELDS, readFields, union, writeFields, type FieldSet } from './field-set.ts';

/** A parsed entry of managedFields. */
export interface Manager {
  readonly manager: string;
  readonly operation: 'Apply' | 'Update';
  readonly apiVersion: string;
  /** Empty for the main resource. */
  readonly subresource: string;
  /** RFC 3339. Undefined if a client sent the entry without a time. */
  readonly time: string | undefined;
  readonly fields: FieldSet;
}

/** Keyed by {@link idOf}. */
export type Managers = ReadonlyMap<string, Manager>;

export const NO_MANAGERS: Managers = new Map();

/**
 * The identity of an entry. It excludes the time, and for Apply also the version, which may change. The text equals
 * the API server's, which sorts conflicts by it.
 */
export const idOf = ({
  manager,
  operation,
  apiVersion,
  subresource,
}: Omit<Manager, 'time' | 'fields'>): string =>
  JSON.stringify({
    manager: manager === '' ? undefined : manager,
    operation,
    apiVersion: operation === 'Apply' ? undefined : apiVersion,
    subresource: subresource === '' ? undefined : subresource,
  });

const read = new WeakMap<object, Managers>();
const written = new WeakMap<Managers, readonly ManagedFieldsEntry[]>();

/** The managers of a stored object. */
export function managersOf(object: ApiObject | undefined): Managers {
  const entries = object === undefined ? undefined : sentEntries(object);
  return readManagers(entries) ?? NO_MANAGERS;
}

/**
 * The managers at the start of a request: those in the request if valid, otherwise those of the live object, because
 * clients that do not know managedFields omit them. An empty list or `[{}]` clears them. Requests to a subresource
 * cannot change them.
 *
 * @see k8s.io/apimachinery/pkg/util/managedfields/internal/fieldmanager.go, decodeLiveOrNew
 */
export function managersToStartFrom(
  live: ApiObject | undefined,
  sent: ApiObject,
  subresource: string,
): Managers {
  const entries = sentEntries(sent);
  const known = managersOf(live);
  if (subresource !== '' || entries === undefined) return known;
  if (isReset(entries)) return NO_MANAGERS;
  if (live !== undefined && isEqual(entries, sentEntries(live))) return known; // already parsed
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

/** Undefined if an entry is invalid. */
function readManagers(entries: JsonValue | undefined): Managers | undefined {
  if (!isJsonArray(entries)) return undefined;
  const known = read.get(entries);
  if (known !== undefined) return known;
  const managers = new Map<string, Manager>();
  for (const entry of entries) {
    const manager = isJsonObject(entry) ? readManager(entry) : undefined;
    if (manager === undefined) return undefined;
    managers.set(idOf(manager), manager);
  }
  read.set(entries, managers);
  return managers;
}

function readManager(entry: JsonObject): Manager | undefined {
  const text = (name: string): string => {
    const value = ownValue(entry, name);
    return typeof value === 'string' ? value : '';
  };
  const operation = text('operation');
  if (operation !== 'Apply' && operation !== 'Update') return undefined;
  if (text('apiVersion') === '' || text('fieldsType') !== 'FieldsV1') return undefined;
  const fields = readSet(ownValue(entry, 'fieldsV1'));
  if (fields === undefined) return undefined;
  return {
    manager: text('manager'),
    operation,
    apiVersion: text('apiVersion'),
    subresource: text('subresource'),
    time: text('time') === '' ? undefined : text('time'),
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

/** The object with these managers; returns the object itself if it already has them. */
export function withManagers(object: ApiObject, managers: Managers): ApiObject {
  const managedFields = managers.size === 0 ? undefined : writeManagers(managers);
  return managedFields === object.metadata.managedFields ? object : withMeta(object, { managedFields });
}

function writeManagers(managers: Managers): readonly ManagedFieldsEntry[] {
  const known = written.get(managers);
  if (known !== undefined) return known;
  const entries = [...managers.values()]
    .sort(compareManagers)
    .map(({ manager, operation, apiVersion, subresource, time, fields }): ManagedFieldsEntry => ({
      manager,
      operation,
      apiVersion,
      ...(time === undefined ? {} : { time }),
      fieldsType: 'FieldsV1',
      fieldsV1: writeFields(fields),
      ...(subresource === '' ? {} : { subresource }),
    }));
  written.set(managers, entries);
  read.set(entries, managers);
  return entries;
}

/** Apply entries first, then by age (internal/managedfields.go, sortEncodedManagedFields). */
function compareManagers(a: Manager, b: Manager): number {
  return (
    compareTexts(a.operation, b.operation) ||
    secondsOf(a) - secondsOf(b) ||
    compareTexts(a.manager, b.manager) ||
    compareTexts(a.apiVersion, b.apiVersion) ||
    compareTexts(a.subresource, b.subresource)
  );
}

const compareTexts = (a: string, b: string) => (a < b ? -1 : a > b ? 1 : 0);

function secondsOf({ time }: Manager): number {
  const milliseconds = time === undefined ? 0 : Date.parse(time);
  return Number.isNaN(milliseconds) ? 0 : Math.floor(milliseconds / 1000);
}

/** The API server keeps this many managers with operation Update and merges the oldest into one. */
const MOST_UPDATERS = 10;

/** @see k8s.io/apimachinery/pkg/util/managedfields/internal/capmanagers.go */
export function withFewUpdaters(managers: Managers): Managers {
  const updaters = [...managers].filter(([, { operation }]) => operation === 'Update');
  let tooMany = updaters.length - MOST_UPDATERS;
  if (tooMany <= 0) return managers;

  const left = new Map(managers);
  const oldestOf = new Map<string, string>(); // the first id of each version
  updaters.sort(([idA, a], [idB, b]) => secondsOf(a) - secondsOf(b) || compareTexts(idA, idB));
  for (const [id, updater] of updaters) {
    if (tooMany === 0) break;
    const oldest = oldestOf.get(updater.apiVersion);
    if (oldest === undefined) {
      oldestOf.set(updater.apiVersion, id);
      continue;
    }
    const ancient = { ...updater, manager: 'ancient-changes', subresource: '' };
    const bucket = idOf(ancient);
    const before = left.get(bucket) ?? left.get(oldest);
    if (!left.has(bucket)) left.delete(oldest);
    left.delete(id);
    left.set(bucket, {
      ...ancient,
      fields: before === undefined ? updater.fields : union(updater.fields, before.fields),
    });
    tooMany--;
  }
  return left;
}

/** The managers with changed field sets; returns `managers` itself if none changes. */
export function mapFields(managers: Managers, change: (fields: FieldSet) => FieldSet): Managers {
  let next: Map<string, Manager> | undefined;
  for (const [id, manager] of managers) {
    const fields = change(manager.fields);
    if (fields !== manager.fields) (next ??= new Map(managers)).set(id, { ...manager, fields });
  }
  return next ?? managers;
}

/**
 * `next` if it differs from `managers`, otherwise `managers` itself, so that unchanged entries are not serialised
 * again.
 */
export function unlessSame(managers: Managers, next: Managers): Managers {
  if (managers.size !== next.size) return next;
  for (const [id, manager] of next) {
    const known = managers.get(id);
    if (known === undefined) return next;
    const isSame =
      known === manager ||
      (known.time === manager.time &&
        known.apiVersion === manager.apiVersion &&
        isSameSet(known.fields, manager.fields));
    if (!isSame) return next;
  }
  return managers;
}
