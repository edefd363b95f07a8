import { isJsonArray, isJsonObject, type JsonObject, type JsonValue } from '../../../json/json.ts';
import { changeFields, changeItems } from './change-json.ts';
import { type Schema, childSchema } from './schema.ts';

/**
 * The value with the defaults of its schema where fields are absent; the same reference when there was nothing to do.
 *
 * A null where the schema allows none gives way to the default, or to nothing when there is no default: clients write
 * `creationTimestamp: null`. A default below an absent parent creates no parent; items of lists are never created or dropped.
 * Follows k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting.
 */
export function applyDefaults(value: JsonValue, schema: Schema): JsonValue {
  if (isJsonObject(value)) return defaultFields(value, schema);
  const { items } = schema;
  if (!isJsonArray(value) || items === undefined) return value;
  return changeItems(value, (item) => applyDefaults(orDefault(item, items) ?? null, items));
}

function defaultFields(object: JsonObject, schema: Schema): JsonObject {
  const present = changeFields(object, (value, key) => {
    const child = childSchema(schema, key);
    if (child === undefined) return value;
    const known = orDefault(value, child);
    return known === undefined ? undefined : applyDefaults(known, child);
  });
  const absent = propertiesWithDefault(schema).filter(([key]) => !Object.hasOwn(present, key));
  if (absent.length === 0) return present;
  return Object.fromEntries([
    ...Object.entries(present),
    ...absent.map(([key, child, value]): [string, JsonValue] => [key, applyDefaults(value, child)]),
  ]);
}

/** The value, or what stands in for a null that may not be: undefined when nothing does. */
function orDefault(value: JsonValue, schema: Schema): JsonValue | undefined {
  return value === null && schema.nullable !== true ? (schema.default ?? undefined) : value;
}

type Defaulted = readonly (readonly [key: string, schema: Schema, value: JsonValue])[];

const remembered = new WeakMap<Schema, Defaulted>();

/** Most schemas have few defaults among many properties, and every write asks. */
function propertiesWithDefault(schema: Schema): Defaulted {
  const known = remembered.get(schema);
  if (known !== undefined) return known;
  const found = Object.entries(schema.properties ?? {}).flatMap(([key, child]) =>
    child.default === undefined || child.default === null ? [] : [[key, child, child.default] as const],
  );
  remembered.set(schema, found);
  return found;
}
