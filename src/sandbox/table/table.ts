import { toCanonicalText } from '../../json/json-text.ts';
import { isJsonArray, isJsonObject, type JsonObject, type JsonValue, memoizeWeak } from '../../json/json.ts';
import { type ApiObject, toJson } from '../../machinery/api-object.ts';
import type { PrinterColumn, ResourceType } from '../../machinery/resource-type.ts';
import { goFloat } from '../../machinery/schema/causes.ts';
import { ageOf } from '../../machinery/human-duration.ts';
import { compileJsonPath } from './json-path.ts';
import { escapeHtml } from '../webhook-caller.ts';

interface TableOptions {
  readonly type: Pick<ResourceType, 'columns' | 'custom'>;
  /** `includeObject` tells how much of its object a row contains. */
  readonly query: URLSearchParams;
  /** False in all events of a watch except the first. */
  readonly withColumns: boolean;
  readonly now: Date;
}

export const toPartialMetadata = (object: ApiObject): JsonObject => ({
  kind: 'PartialObjectMetadata',
  apiVersion: 'meta.k8s.io/v1',
  metadata: toJson(object).metadata ?? {},
});

/** Objects as the rows that `kubectl get` prints: a Table of meta.k8s.io. */
export function toTable(
  objects: readonly ApiObject[],
  metadata: JsonObject,
  options: TableOptions,
): JsonObject {
  const { type, withColumns, query } = options;
  const included = includedIn(query.get('includeObject') ?? '');
  const columns = type.columns.map((column) => toDefinition(column, type.custom));
  return {
    kind: 'Table',
    apiVersion: 'meta.k8s.io/v1',
    metadata,
    columnDefinitions: withColumns ? [...(namesItself(type) ? [] : [NAME]), ...columns] : null,
    rows: objects.map((object) => ({
      cells: [
        ...(namesItself(type) ? [] : [object.metadata.name ?? '']),
        ...type.columns.map((column) => cellOf(column, object, options)),
      ],
      object: included(object),
    })),
  };
}

/** The part of an object that its row contains. */
function includedIn(includeObject: string): (object: ApiObject) => JsonValue {
  switch (includeObject) {
    case 'None':
      return () => null;
    case 'Object':
      return toJson;
    default:
      return toPartialMetadata;
  }
}

/** Events have their name in the last column, and only in wide output. */
const namesItself = ({ columns }: Pick<ResourceType, 'columns'>) =>
  columns.some(({ format }) => format === 'name');

const NAME: JsonObject = {
  name: 'Name',
  type: 'string',
  format: 'name',
  description: 'The name of the object, unique among objects of its kind in a namespace.',
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

function cellOf(
  column: PrinterColumn,
  object: ApiObject,
  { type: { custom }, now }: TableOptions,
): JsonValue {
  const { type, value } = column;
  if (typeof value === 'function') return value(object, now);
  const found = firstOf(column)(object);
  // Only built-in kinds print a word for an unknown age.
  if (type === 'date' && !custom && (found === undefined || found === null)) return ageOf(undefined, now);
  return found === undefined ? null : shown(type, found, now);
}

/** Compiles the path of a column once, as long as its kind is served. */
const firstOf = memoizeWeak(({ value }: PrinterColumn): ((object: ApiObject) => JsonValue | undefined) => {
  try {
    const follow = compileJsonPath(typeof value === 'string' ? value : '');
    return (object) => follow(toJson(object))[0];
  } catch (error) {
    if (error instanceof SyntaxError) return () => undefined;
    throw error;
  }
});

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
function cellText(value: JsonValue): string {
  if (value === null) return '<no value>';
  if (typeof value === 'number') return Number.isInteger(value) ? String(value) : goFloat(value);
  if (isJsonObject(value) || isJsonArray(value)) return escapeHtml(toCanonicalText(value));
  return String(value);
}
