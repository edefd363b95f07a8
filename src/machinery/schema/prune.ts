import { isJsonArray, isJsonObject, type JsonObject, type JsonValue } from '../../json/json.ts';
import { OBJECT_META } from './object-meta.ts';
import { changeFields, changeItems, childSchema, property, type Schema } from './schema.ts';

/** Paths of dropped fields, as in `strict decoding error: unknown field "spec.ports[0].foo"`. */
type Unknown = string[];

/** The value without fields unknown to its schema; the same reference if all fields are known. */
export function prune(
  value: JsonValue,
  schema: Schema,
): { readonly value: JsonValue; readonly unknown: readonly string[] } {
  const unknown: Unknown = [];
  const pruned = pruneValue(value, schema, false, unknown);
  return { value: pruned, unknown: unknown.length > 1 ? unknown.sort() : unknown };
}

/** @param schema undefined below `additionalProperties: true`, where objects lose all fields. @param preserving of the list */
function pruneValue(
  value: JsonValue,
  schema: Schema | undefined,
  preserving: boolean,
  unknown: Unknown,
): JsonValue {
  const preserves = preserving || schema?.['x-kubernetes-preserve-unknown-fields'] === true;
  if (isJsonObject(value)) return pruneObject(value, schema, preserves, unknown);
  if (!isJsonArray(value) || (preserves && schema?.items === undefined)) return value;
  let index = 0;
  return changeItems(value, (item) =>
    within(`[${index++}]`, unknown, () => pruneValue(item, schema?.items, preserves, unknown)),
  );
}

function pruneObject(
  object: JsonObject,
  schema: Schema | undefined,
  preserves: boolean,
  unknown: Unknown,
): JsonObject {
  const embedded = schema?.['x-kubernetes-embedded-resource'] === true;
  return changeFields(object, (value, key) => {
    if (embedded && (key === 'apiVersion' || key === 'kind')) return value;
    const known =
      schema !== undefined && (property(schema, key) ?? schema.additionalProperties) !== undefined;
    if (!known && !(embedded && key === 'metadata')) {
      if (preserves) return value;
      unknown.push(key);
      return undefined;
    }
    const child = embedded && key === 'metadata' ? OBJECT_META : childSchema(schema, key);
    return within(key, unknown, () => pruneValue(value, child, false, unknown));
  });
}

/** Runs `work` and prefixes the paths that it found with `step`. Paths are built only when a field is unknown. */
function within<T>(step: string, unknown: Unknown, work: () => T): T {
  const before = unknown.length;
  const result = work();
  for (let index = before; index < unknown.length; index++) {
    const rest = unknown[index] ?? '';
    unknown[index] = rest.startsWith('[') ? `${step}${rest}` : `${step}.${rest}`;
  }
  return result;
}
