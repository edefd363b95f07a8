import { toCanonicalText } from '../../json/json-text.ts';
import type { ErrorObject } from 'ajv';

import {
  isEqual,
  isJsonArray,
  isJsonObject,
  ownValue,
  type JsonValue,
  type JsonObject,
  type JsonArray,
} from '../../json/json.ts';
import type { Cause } from '../failure.ts';
import { kindProblem } from '../name-problems.ts';
import {
  anywhere,
  changeFields,
  changeItems,
  childSchema,
  oldField,
  oldItem,
  valuesBelow,
  type Schema,
} from './schema.ts';
import { explain, type Place } from './explain.ts';
import { compileSchema, type CompiledSchema } from './json-schema.ts';
import { duplicateValue, invalidIf, invalidValue, requiredValue, when } from './causes.ts';

/** Duplicates in lists of type set or map. Built-in kinds, which have a patch strategy, allow them. */
function duplicateItems(value: JsonValue, schema: Schema, path = ''): readonly Cause[] {
  if (!hasUniqueLists(schema)) return [];
  return [
    ...(isJsonArray(value) && isUnique(schema) ? inList(value, schema, path) : []),
    ...valuesBelow(value, schema, path).flatMap((below) =>
      duplicateItems(below.value, below.schema, below.path),
    ),
  ];
}

function inList(list: JsonArray, schema: Schema, path: string): readonly Cause[] {
  if (schema['x-kubernetes-list-type'] === 'set') return repeated(list, path);
  const odd = list.findIndex((item) => item !== null && !isJsonObject(item));
  if (odd >= 0) {
    const detail = 'must be an object for an array of list-type map';
    return [invalidValue(`${path}[${odd}]`, list[odd] ?? null, detail)];
  }
  const names = schema['x-kubernetes-list-map-keys'] ?? [];
  return repeated(
    list.map((item) => keysOf(item, names)),
    path,
  );
}

const keysOf = (item: JsonValue, names: readonly string[]): JsonObject =>
  isJsonObject(item) ? Object.fromEntries(Object.entries(item).filter(([name]) => names.includes(name))) : {};

/** Reports the second of several equal values, but no further ones. */
function repeated(values: readonly JsonValue[], path: string): readonly Cause[] {
  const seen = new Map<string, number>();
  return values.flatMap((value, index) => {
    const text = toCanonicalText(value);
    const times = (seen.get(text) ?? 0) + 1;
    seen.set(text, times);
    return times === 2 ? [duplicateValue(`${path}[${index}]`, value)] : [];
  });
}

const isUnique = (schema: Schema) =>
  (schema['x-kubernetes-list-type'] === 'set' || schema['x-kubernetes-list-type'] === 'map') &&
  schema['x-kubernetes-patch-strategy'] === undefined;

const hasUniqueLists = anywhere(isUnique);

/** @param old the object before an update: what has not changed since is tolerated, if it can be correlated */
export function validateSchema(value: JsonValue, schema: Schema, old?: JsonValue): readonly Cause[] {
  const { check, root } = compileSchema(schema);
  const errors = checkWithBigints(value, check);
  const unchanged = (place: Place) => old !== undefined && isUnchanged(value, old, schema, place);
  const faults = errors.length === 0 ? [] : explain(value, root, errors, unchanged);
  const duplicates =
    old === undefined || duplicateItems(old, schema).length === 0 ? duplicateItems(value, schema) : [];
  return [...faults, ...embeddedProblems(value, schema), ...duplicates];
}

/** Ajv does not accept bigints: check such a value again with doubles, like the API server. */
function checkWithBigints(value: JsonValue, check: CompiledSchema['check']): readonly ErrorObject[] {
  const errors = check(value);
  const doubles = errors.length === 0 ? value : withDoubles(value);
  return doubles === value ? errors : check(doubles);
}

function withDoubles(value: JsonValue): JsonValue {
  if (typeof value === 'bigint') {
    const fits = BigInt.asIntN(64, value) === value;
    return fits ? Number(value) : value > 0 ? Infinity : -Infinity;
  }
  if (isJsonArray(value)) return changeItems(value, withDoubles);
  return isJsonObject(value) ? changeFields(value, withDoubles) : value;
}

function isUnchanged(value: JsonValue, old: JsonValue, schema: Schema, place: Place): boolean {
  let now: JsonValue = value;
  let before: JsonValue | undefined = old;
  let known: Schema | undefined = schema;
  for (const key of place) {
    if (before === undefined || known === undefined) return false;
    const next = ownValue(now as object, String(key)) as JsonValue; // the place exists in the value, so all its parents are containers
    before = typeof key === 'string' ? oldField(known, before, key) : oldItem(known, before, next);
    known = typeof key === 'string' ? childSchema(known, key) : known.items;
    now = next;
  }
  return before !== undefined && isEqual(now, before);
}

/** The problems of apiVersion, kind and metadata of embedded objects (`x-kubernetes-embedded-resource`). */
function embeddedProblems(value: JsonValue, schema: Schema, path = ''): readonly Cause[] {
  if (!hasEmbedded(schema)) return [];
  const isEmbedded = schema['x-kubernetes-embedded-resource'] === true;
  return [
    ...(isEmbedded && isJsonObject(value) ? ofEmbedded(value, path) : []),
    ...valuesBelow(value, schema, path).flatMap((below) =>
      embeddedProblems(below.value, below.schema, below.path),
    ),
  ];
}

function ofEmbedded(object: JsonObject, path: string): readonly Cause[] {
  const { kind, metadata } = object;
  const problem = typeof kind === 'string' && kind !== '' ? kindProblem(kind) : undefined;
  const isMeta = metadata === undefined || metadata === null || isJsonObject(metadata);
  return [
    ...nameProblems(object.apiVersion, `${path}.apiVersion`),
    ...nameProblems(kind, `${path}.kind`),
    ...invalidIf(`${path}.kind`, kind ?? null, problem),
    ...when(!isMeta, invalidValue(`${path}.metadata`, metadata ?? null, 'must be an object')),
  ];
}

function nameProblems(value: JsonValue | undefined, path: string): readonly Cause[] {
  if (value === undefined || value === '') return [requiredValue(path)];
  return when(typeof value !== 'string', invalidValue(path, value, 'must be a string'));
}

const hasEmbedded = anywhere((schema) => schema['x-kubernetes-embedded-resource'] === true);
