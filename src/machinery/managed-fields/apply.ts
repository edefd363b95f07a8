import { isJsonObject, type JsonObject, type JsonValue } from '../../json/json.ts';
import { ofJson, toJson, type ApiObject } from '../api-object.ts';
import { ApiFailure, badRequest } from '../failure.ts';
import type { Schema } from '../schema/schema.ts';
import {
  difference,
  intersection,
  isEmptySet,
  isWithin,
  NO_FIELDS,
  pathsOf,
  union,
  type FieldSet,
} from './field-set.ts';
import { TypedError, typeProblems } from './shape.ts';
import { compare, fieldsOf, merge, removeItems, withNamedFields, type Comparison } from './typed.ts';
import {
  changeManagers,
  idOf,
  managerFor,
  managersOf,
  managersWithout,
  trackedOnly,
  trackedPart,
  withManagers,
  withoutFields,
  type Manager,
  type Managers,
  type Writer,
} from './update.ts';

export interface Apply extends Writer {
  /** Undefined if the object does not exist yet. */
  readonly live: ApiObject | undefined;
  /** The configuration as the client sent it, without defaults, in the version of the request. */
  readonly applied: ApiObject;
  readonly force: boolean;
  readonly schema: Schema;
  /** Top-level fields that this endpoint leaves unchanged, e.g. `status` for most kinds. */
  readonly reset?: readonly string[];
}

/** Server-side apply (structured-merge-diff, merge/update.go). Returns the live object itself if nothing changes. */
export function applyConfiguration(apply: Apply): { readonly object: ApiObject } {
  refuseUnfit(apply);
  try {
    return { object: merged(apply) };
  } catch (error) {
    if (!(error instanceof TypedError)) throw error;
    throw unmergeable(apply.applied, 'live', error.message);
  }
}

function merged({ live, applied, force, schema, reset = [], ...writer }: Apply): ApiObject {
  const wanted = requestedFields(toJson(applied), reset);
  const self = managerFor(writer, 'Apply', fieldsOf(wanted, schema));
  const managers = managersBefore(live, schema, reset, writer);
  const others: Managers = new Map([...managers].filter(([id]) => id !== idOf(self)));
  const previous = managers.get(idOf(self));

  const base = live ?? { apiVersion: applied.apiVersion, kind: applied.kind, metadata: {} };
  const whole = merge(toJson(base), wanted, schema);
  const object = ofJson(prune(whole, previous?.fields, [self, ...others.values()], schema));
  const comparison = compare(trackedPart(base, reset), trackedPart(object, reset), schema);
  if (!force) refuseConflicts(others, comparison);

  const next = managersWithout(others, union(comparison.changed, comparison.removed));
  // Only a change of the object sets the time. A new manager that changes nothing has none.
  const { time, ...timeless } = object === base ? { ...self, time: previous?.time } : self;
  const own = { ...timeless, ...(time === undefined ? {} : { time }), fields: trackedOnly(self.fields) };
  if (!isEmptySet(own.fields)) next.set(idOf(own), own);
  return withManagers(object, next);
}

/** Drops null timestamps, which tools that serialise whole structs send. */
function requestedFields(applied: JsonObject, reset: readonly string[]): JsonObject {
  const { metadata } = applied;
  const wanted =
    isJsonObject(metadata) && metadata.creationTimestamp === null
      ? { ...applied, metadata: withoutFields(metadata, ['creationTimestamp']) }
      : applied;
  return withoutFields(wanted, reset);
}

/** The managers of the live object. If it has none, one manager owns all existing fields. */
function managersBefore(
  live: ApiObject | undefined,
  schema: Schema,
  reset: readonly string[],
  writer: Writer,
): Managers {
  const managers = managersOf(live);
  if (managers.size > 0 || live === undefined) return managers;
  const whole = compare({}, trackedPart(live, reset), schema);
  return changeManagers(managers, whole, { ...writer, manager: 'before-first-apply' });
}

function refuseConflicts(managers: Managers, { changed }: Comparison): void {
  const conflicts = [...managers]
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([, manager]): Conflict => ({ manager, fields: intersection(manager.fields, changed) }))
    .filter(({ fields }) => !isEmptySet(fields));
  if (conflicts.length > 0) throw applyConflict(conflicts);
}

/** Removes fields that the manager applied last time but not now, unless another manager owns them. */
function prune(
  whole: JsonValue,
  last: FieldSet | undefined,
  managers: readonly Manager[],
  schema: Schema,
): JsonValue {
  const wanted = managers.map(({ fields }) => fields).reduce(union, NO_FIELDS);
  if (last === undefined || isWithin(last, wanted)) return whole;
  const named = (fields: FieldSet) => withNamedFields(fields, schema);
  const all = named(fieldsOf(whole, schema));
  const withoutLast = removeItems(whole, named(last), schema);
  const kept = union(named(fieldsOf(withoutLast, schema)), named(wanted));
  const withWanted = removeItems(whole, difference(all, kept), schema);
  const gone = difference(all, named(fieldsOf(withWanted, schema)));
  return removeItems(whole, intersection(gone, named(last)), schema);
}

/** @throws ApiFailure 400 or 500 if the configuration cannot be merged with any object */
function refuseUnfit({ applied, apiVersion, schema }: Apply): void {
  if (applied.apiVersion !== apiVersion) {
    throw badRequest(
      `Incorrect version specified in apply patch. Specified patch version: ${applied.apiVersion}, expected: ${apiVersion}`,
    );
  }
  const metadata = toJson(applied).metadata;
  if (isJsonObject(metadata) && (metadata.managedFields ?? null) !== null) {
    throw badRequest('metadata.managedFields must be nil');
  }
  const problems = typeProblems(toJson(applied), schema);
  const [only] = problems;
  if (only === undefined) return;
  throw unmergeable(applied, 'patch', problems.length === 1 ? only : ['errors:', ...problems].join('\n  '));
}

/** The API server reports this as an error of the merge without a reason, not as a bad request. */
function unmergeable(
  { apiVersion, kind, metadata }: ApiObject,
  which: 'patch' | 'live',
  why: string,
): ApiFailure {
  const versioned = apiVersion.includes('/') ? apiVersion : `/${apiVersion}`;
  const name = `${metadata.namespace ?? ''}/${metadata.name ?? ''}; ${versioned}, Kind=${kind}`;
  return new ApiFailure(500, '', `failed to create typed ${which} object (${name}): ${why}`);
}

interface Conflict {
  readonly manager: Manager;
  readonly fields: FieldSet;
}

/** The error of an apply, with one cause per field (managedfields/internal/conflict.go of apimachinery). */
function applyConflict(conflicts: readonly Conflict[]): ApiFailure {
  const named = conflicts.map(({ manager, fields }) => ({ who: nameOf(manager), paths: pathsOf(fields) }));
  const causes = named.flatMap(({ who, paths }) =>
    paths.map((field) => ({ reason: 'FieldManagerConflict', message: `conflict with ${who}`, field })),
  );
  const [only] = causes;
  const message =
    causes.length === 1 && only !== undefined
      ? `1 conflict: ${only.message}: ${only.field}`
      : `${causes.length} conflicts: ${named.map(linesOf).join('\n')}`;
  return new ApiFailure(409, 'Conflict', `Apply failed with ${message}`, { causes });
}

const linesOf = ({ who, paths }: { readonly who: string; readonly paths: readonly string[] }) =>
  [`conflicts with ${who}:`, ...paths.map((path) => `- ${path}`)].join('\n');

function nameOf({ manager, operation, apiVersion, subresource }: Manager): string {
  const where = subresource === undefined ? '' : ` with subresource ${JSON.stringify(subresource)}`;
  return JSON.stringify(manager) + where + (operation === 'Update' ? ` using ${apiVersion}` : '');
}
