import { isJsonArray, isJsonObject, stringifyJson, type JsonValue } from '../../json/json.ts';
import { ANYTHING, type Schema } from '../schema/schema.ts';
import { fieldElement, showElement } from './path-element.ts';
import { childSchema, itemElement, itemSchema, shapeOf, TypedError } from './shape.ts';

/**
 * The reasons why a configuration cannot be merged, as `path: problem`: wrong types, unknown fields, list items with
 * missing or duplicate keys. Empty if it can be merged.
 *
 * @param free whether an outer schema preserves unknown fields
 * @see sigs.k8s.io/structured-merge-diff/v6/typed/validate.go
 */
export function typeProblems(value: JsonValue, schema: Schema, path = '', free = false): readonly string[] {
  const mismatch = typeMismatch(value, schema);
  if (mismatch !== undefined) return [path === '' ? mismatch : `${path}: ${mismatch}`];
  const keepsAll = free || schema['x-kubernetes-preserve-unknown-fields'] === true;
  if (isJsonArray(value)) return listProblems(value, schema, path, keepsAll);
  if (isJsonObject(value)) {
    return Object.entries(value).flatMap(([name, child]) => {
      const below = path + showElement(fieldElement(name));
      const known = childSchema(schema, name) ?? (keepsAll ? ANYTHING : undefined);
      return known === undefined
        ? [`${below}: field not declared in schema`]
        : typeProblems(child, known, below, keepsAll);
    });
  }
  return [];
}

function listProblems(
  items: readonly JsonValue[],
  schema: Schema,
  path: string,
  free: boolean,
): readonly string[] {
  const isKeyed = shapeOf(items, schema) === 'list';
  const seen = new Set<string>();
  const problems: string[] = [];
  for (const [index, item] of items.entries()) {
    try {
      const element = isKeyed ? itemElement(item, schema) : `i:${index}`;
      if (seen.has(element)) problems.push(`${path}: duplicate entries for key ${showElement(element)}`);
      seen.add(element);
      problems.push(...typeProblems(item, itemSchema(schema), path + showElement(element), free));
    } catch (error) {
      if (!(error instanceof TypedError)) throw error;
      return [...problems, `${path}: element ${index}: ${error.message}`]; // without a key there is no path to descend into
    }
  }
  return problems;
}

function typeMismatch(value: JsonValue, schema: Schema): string | undefined {
  if (value === null || schema.type === undefined) return undefined;
  switch (schema.type) {
    case 'object':
      return isJsonObject(value) ? undefined : `expected map, got &{${textOf(value)}}`;
    case 'array':
      return isJsonArray(value) ? undefined : `expected list, got &{${textOf(value)}}`;
    case 'boolean':
      return typeof value === 'boolean' ? undefined : `expected boolean, got &{${textOf(value)}}`;
    case 'integer':
    case 'number':
      if (typeof value === 'number' || typeof value === 'bigint') return undefined;
      return `expected numeric (int or float), got ${goTypeOf(value)}`;
    case 'string':
      return stringMismatch(value, schema.format);
  }
}

/** For strings with a format, the API server's schema only requires that the value is neither a list nor a map. */
function stringMismatch(value: JsonValue, format: string | undefined): string | undefined {
  if (format !== undefined && format !== 'byte') {
    return typeof value === 'object' ? `expected any scalar, got &{${textOf(value)}}` : undefined;
  }
  if (typeof value === 'string') return undefined;
  return `expected string, got &value.valueUnstructured{Value:${textOf(value)}}`;
}

const textOf = (value: JsonValue): string => (typeof value === 'string' ? value : stringifyJson(value));

function goTypeOf(value: JsonValue): string {
  if (isJsonArray(value)) return '[]interface {}';
  if (isJsonObject(value)) return 'map[string]interface {}';
  return typeof value === 'boolean' ? 'bool' : 'string';
}
