import { compileCel } from '../../../../cel/cel.ts';
import { fieldName } from '../../../../cel/types/schema-type.ts';
import { celNumber, celValue } from '../../../../cel/values/maps.ts';
import { stored, typedList } from '../../../../cel/values/typed-lists.ts';
import { isJsonArray, isJsonObject, type JsonObject, type JsonValue } from '../../../../json/json.ts';
import { type Schema, furtherSchema } from '../schema.ts';

const toDuration = compileCel('duration(text)', ['text']);
const toTimestamp = compileCel('timestamp(text)', ['text']);
const toBytes = (text: string) => new Uint8Array(Buffer.from(text, 'base64'));

/**
 * Prepares a value as `self` of the rules at its schema. Numbers get the type that the schema declares, formatted
 * strings become timestamps, durations and bytes, and property names are escaped for expressions.
 *
 * @see
 *   https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definitions/#type-system-integration
 * @throws CelError if a string does not match the schema's format
 */
export function celSelf(value: JsonValue, schema: Schema): unknown {
  if (value === null) return null;
  if (typeof value === 'string') return celText(value, schema);
  if (typeof value === 'number' || typeof value === 'bigint') {
    return schema.type === 'number' ? Number(value) : celNumber(value);
  }
  if (isJsonArray(value)) {
    const { items } = schema;
    if (items === undefined) return celValue(value);
    const list = value.map((item) => celSelf(item, items));
    switch (schema['x-kubernetes-list-type']) {
      case 'set':
        return typedList(list, { keys: undefined, isStored: true });
      case 'map':
        return typedList(list, {
          keys: (schema['x-kubernetes-list-map-keys'] ?? []).map(fieldName),
          isStored: true,
        });
      case 'atomic':
      case undefined:
        return stored(list);
    }
  }
  return isJsonObject(value) ? celFields(value, schema) : value;
}

function celFields(object: JsonObject, schema: Schema): unknown {
  const { properties } = schema;
  const further = furtherSchema(schema);
  if (properties === undefined && further === undefined) return celValue(object);
  const fields = new Map<string, unknown>();
  for (const [key, value] of Object.entries(object)) {
    if (properties !== undefined && Object.hasOwn(properties, key)) {
      const own = properties[key];
      if (own !== undefined) fields.set(fieldName(key), celSelf(value, own));
    } else if (further !== undefined) fields.set(key, celSelf(value, further));
    else if (schema['x-kubernetes-embedded-resource'] === true) fields.set(key, celValue(value));
  }
  return stored(fields);
}

function celText(text: string, { type, format }: Schema): unknown {
  if (type !== 'string') return text;
  switch (format) {
    case 'byte':
      return toBytes(text);
    case 'duration':
      return toDuration.run({ text });
    case 'date':
      return toTimestamp.run({ text: `${text}T00:00:00Z` });
    case 'date-time':
      return toTimestamp.run({ text });
    case undefined:
    default:
      return text;
  }
}
