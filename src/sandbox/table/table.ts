import {
  type JsonObject,
  type JsonValue,
  isJsonArray,
  isJsonObject,
  stringifyJson,
} from '../../json/json.ts';
import { toJson, type ApiObject } from '../../machinery/api-object.ts';
import type { MetaVersion } from '../http/content-type.ts';
import { badRequest } from '../../machinery/failure.ts';
import type { PrinterColumn, ResourceType } from '../../machinery/resource-type.ts';
import { ageOf } from '../../machinery/human-duration.ts';
import { compileJsonPath, type JsonPath } from './json-path.ts';
import { listMetaToJson, toPartialMetadata, type ListMeta } from './partial-metadata.ts';

/** How much of its object a row contains (`includeObject` in the query). */
export type IncludeObject = 'Metadata' | 'None' | 'Object';

export interface TableOptions {
  readonly type: Pick<ResourceType, 'columns' | 'custom'>;
  readonly objects: readonly ApiObject[];
  /** Undefined for a table of one object, in a get or a watch event. */
  readonly listMeta: ListMeta | undefined;
  readonly includeObject: IncludeObject;
  /** False in all events of a watch except the first. */
  readonly withColumns: boolean;
  readonly version: MetaVersion;
  readonly now: Date;
}

/** Parses `includeObject` of a query. @throws ApiFailure 400 */
export function includeObjectOf(value: string | null): IncludeObject {
  if (value === null || value === '') return 'Metadata';
  if (value === 'Metadata' || value === 'None' || value === 'Object') return value;
  throw badRequest(
    `Unable to convert to Table as requested: includeObject: Invalid value: "${value}": must be 'Metadata', 'Object', 'None', or empty`,
  );
}

/**
 * Objects as the rows that `kubectl get` prints: a Table of meta.k8s.io.
 * @see k8s.io/apiextensions-apiserver/pkg/registry/customresource/tableconvertor
 */
export function toTable(options: TableOptions): JsonObject {
  const { type, objects, listMeta, withColumns, version } = options;
  const [first] = objects;
  return {
    kind: 'Table',
    apiVersion: `meta.k8s.io/${version}`,
    metadata: listMetaToJson(listMeta ?? { resourceVersion: first?.metadata.resourceVersion ?? '' }),
    columnDefinitions: withColumns
      ? [
          ...(namesItself(type) ? [] : [NAME]),
          ...type.columns.map((column) => toDefinition(column, type.custom)),
        ]
      : null,
    rows: objects.map((object) => ({
      cells: [
        ...(namesItself(type) ? [] : [object.metadata.name ?? '']),
        ...type.columns.map((column) => cellOf(column, object, options)),
      ],
      object: included(object, options),
    })),
  };
}

/** Events have their name in the last column, and only in wide output. */
const namesItself = ({ columns }: Pick<ResourceType, 'columns'>) =>
  columns.some(({ format }) => format === 'name');

const NAME: JsonObject = {
  name: 'Name',
  type: 'string',
  format: 'name',
  description: 'The name of the object, unique among those of its kind in a namespace.',
  priority: 0,
};

function toDefinition(column: PrinterColumn, custom: boolean): JsonObject {
  const { name, type, format = '', priority = 0, value } = column;
  const path = typeof value === 'string' ? value : '';
  const description = column.description ?? `Custom resource definition column (in JSONPath format): ${path}`;
  // Built-in kinds declare an age as a string; custom resources declare a date.
  const isAge = !custom && type === 'date' && typeof value === 'string';
  return { name, type: isAge ? 'string' : type, format, description, priority };
}

function included(object: ApiObject, { includeObject, version }: TableOptions): JsonValue {
  switch (includeObject) {
    case 'Metadata':
      return toPartialMetadata(object, version);
    case 'None':
      return null;
    case 'Object':
      return toJson(object);
  }
}

function cellOf(
  column: PrinterColumn,
  object: ApiObject,
  { type: { custom }, now }: TableOptions,
): JsonValue {
  const { type, value } = column;
  if (typeof value === 'function') return value(object, now);
  const found = firstAt(column, value, object);
  // Only built-in kinds print a word for an unknown age.
  if (type === 'date' && !custom && (found === undefined || found === null)) return ageOf(undefined, now);
  return found === undefined ? null : shown(type, found, now);
}

/** Each path is compiled once per column, as long as its kind is served. */
const compiled = new WeakMap<PrinterColumn, JsonPath>();

/** A path may lead to many values; the API server prints the first. */
function firstAt(column: PrinterColumn, path: string, object: ApiObject): JsonValue | undefined {
  const follow = compiled.get(column) ?? compileOrNothing(path);
  compiled.set(column, follow);
  return follow(toJson(object))[0];
}

/** A definition may contain a path that only the API server supports: its cells stay empty. */
function compileOrNothing(path: string): JsonPath {
  try {
    return compileJsonPath(path);
  } catch (error) {
    if (error instanceof SyntaxError) return () => [];
    throw error;
  }
}

/** A value as a column of this type prints it; null if the value has another type. */
function shown(type: PrinterColumn['type'], value: JsonValue, now: Date): JsonValue {
  switch (type) {
    case 'string':
      return cellText(value);
    case 'integer':
      return typeof value === 'number' ? Math.trunc(value) : typeof value === 'bigint' ? value : null;
    case 'number':
      return typeof value === 'number' || typeof value === 'bigint' ? value : null;
    case 'boolean':
      return typeof value === 'boolean' ? value : null;
    case 'date':
      return typeof value === 'string' ? ageOf(value, now) : null;
  }
}

/** A value as the API server prints it in a string column, which is Go's format. */
export function cellText(value: JsonValue): string {
  if (value === null) return '<no value>';
  if (typeof value === 'number') return numberText(value);
  if (isJsonObject(value) || isJsonArray(value)) return escapeHtml(stringifyJson(sortKeys(value)));
  return String(value);
}

/** Go's `%v`: fractions below 0.0001 or from a million on get an exponent with at least two digits. */
function numberText(value: number): string {
  if (Number.isInteger(value)) return String(value);
  const [mantissa = '', exponent = ''] = value.toExponential().split('e');
  if (Number(exponent) >= -4 && Number(exponent) < 6) return String(value);
  return `${mantissa}e${exponent.slice(0, 1)}${exponent.slice(1).padStart(2, '0')}`;
}

/** Go writes map keys in sorted order. */
function sortKeys(value: JsonValue): JsonValue {
  if (isJsonArray(value)) return value.map(sortKeys);
  if (!isJsonObject(value)) return value;
  const entries = Object.entries(value).toSorted(([left], [right]) => (left < right ? -1 : 1));
  return Object.fromEntries(entries.map(([key, item]) => [key, sortKeys(item)]));
}

/** Go escapes JSON for use in HTML. */
const escapeHtml = (json: string): string =>
  json.replaceAll(/[<>&]/g, (character) => `\\u00${character.charCodeAt(0).toString(16)}`);
