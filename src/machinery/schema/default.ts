import { isJsonArray, isJsonObject, type JsonObject, type JsonValue, memoizeWeak } from '../../json/json.ts';
import { changeFields, changeItems, childSchema, type Schema } from './schema.ts';

/** Shares what does not change. A default below an absent parent does not create the parent. */
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

/** The value, or the replacement of a null that the schema does not allow; undefined if there is no replacement. */
function orDefault(value: JsonValue, schema: Schema): JsonValue | undefined {
  return value === null && schema.nullable !== true ? (schema.default ?? undefined) : value;
}

/** Memoised by schema: most schemas have few defaults among many properties, and every write needs them. */
const propertiesWithDefault = memoizeWeak((schema: Schema) =>
  Object.entries(schema.properties ?? {}).flatMap(([key, child]) =>
    child.default === undefined || child.default === null ? [] : [[key, child, child.default] as const],
  ),
);
