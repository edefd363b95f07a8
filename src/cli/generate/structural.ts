/** JSON Schema, as TypeBox and Zod write it, in the form that a CustomResourceDefinition can contain. */
import {
  isJsonArray,
  isJsonObject,
  type JsonArray,
  type JsonObject,
  type JsonValue,
} from '../../json/json.ts';
import { UnusableInput } from '../review/input.ts';

/** Keywords with the same meaning in both forms. */
const KEPT =
  /^(description|title|format|default|enum|nullable|required|(min|max)(Properties|Items|Length|imum)|uniqueItems|pattern|multipleOf|x-kubernetes-.+)$/;
/** Notes, and what the API server does anyway: it removes unknown fields, and each key is a string. */
const DROPPED = /^(\$schema|\$id|\$comment|examples|propertyNames|readOnly|writeOnly|deprecated)$/;
/** A schema with only these permits anything. */
const NOTES = ['description', 'title', 'default', 'nullable', 'x-kubernetes-preserve-unknown-fields'];
/** The pattern for any key of a Record in TypeBox. */
const ANY_KEY = ['^.*$', '^(.*)$', ''];

type Convert = (value: JsonValue, path: string, schema: JsonObject) => JsonObject;

/** @throws UnusableInput with the path of what no structural schema can say */
export function toStructural(given: JsonValue | undefined, path: string): JsonObject {
  if (given === true) return toStructural({}, path);
  if (!isJsonObject(given)) return refused(path, 'it is not a JSON Schema');
  const result: Record<string, JsonValue> = {};
  for (const [keyword, value] of Object.entries(given)) {
    const convert = CONVERTED[keyword];
    if (convert !== undefined) Object.assign(result, convert(value, path, given));
    else if (KEPT.test(keyword)) result[keyword] = value;
    else if (!DROPPED.test(keyword)) refused(path, `a CustomResourceDefinition cannot contain ${keyword}`);
  }
  if (result.type !== undefined || result['x-kubernetes-int-or-string'] !== undefined) return result;
  const isText = isJsonArray(result.enum) && result.enum.every((value) => typeof value === 'string');
  if (isText) return { type: 'string', ...result };
  if (!Object.keys(result).every((keyword) => NOTES.includes(keyword)))
    return refused(path, 'type is missing');
  return { ...result, 'x-kubernetes-preserve-unknown-fields': true };
}

const CONVERTED: Readonly<Record<string, Convert>> = {
  type: (type, path) => {
    if (typeof type === 'string' && type !== 'null') return { type };
    const [first, ...others] = isJsonArray(type) ? type.filter((one) => one !== 'null') : [];
    if (first === undefined || others.length > 0)
      return refused(path, 'write one type, and null at most in addition');
    return { type: first, nullable: true };
  },
  const: (value) => ({ enum: [value], type: typeof value }),
  properties: (fields, path) => ({ properties: each(fields, (name) => `${path}.${name}`) }),
  items: (items, path) => ({ items: toStructural(items, `${path}[*]`) }),
  additionalProperties: (others, path, { properties }) => {
    if (others === false) return {};
    if (properties === undefined) return { additionalProperties: toStructural(others, `${path}.*`) };
    if (others === true || (isJsonObject(others) && Object.keys(others).length === 0))
      return { 'x-kubernetes-preserve-unknown-fields': true };
    return refused(path, 'it has both properties and a schema for other fields: use one of them');
  },
  patternProperties: (patterns, path) => {
    const [[pattern, schema] = [], ...others] = isJsonObject(patterns) ? Object.entries(patterns) : [];
    if (others.length > 0 || !ANY_KEY.includes(pattern ?? '-'))
      return refused(path, 'patternProperties can only have ^.*$: an API server checks no patterns of keys');
    return { additionalProperties: toStructural(schema, `${path}.*`) };
  },
  exclusiveMinimum: (minimum) => ({ minimum, exclusiveMinimum: true }),
  exclusiveMaximum: (maximum) => ({ maximum, exclusiveMaximum: true }),
  anyOf: (all, path) => union(isJsonArray(all) ? all : [], path),
  oneOf: (all, path) => union(isJsonArray(all) ? all : [], path),
};

function union(all: JsonArray, path: string): JsonObject {
  const isNull = (one: JsonValue) => isJsonObject(one) && one.type === 'null';
  const members = all.filter((one) => !isNull(one)).map((one) => toStructural(one, path));
  const nullable = members.length < all.length ? { nullable: true } : {};
  const [first = {}, ...others] = members;
  if (others.length === 0) return { ...first, ...nullable };
  const types = [...new Set(members.map(({ type }) => type))];
  const values = members.map((one) => one.enum);
  if (types.length === 1 && values.every(isJsonArray))
    return { type: types[0] ?? 'string', enum: values.flat(), ...nullable };
  const isPlain = members.every((one) => Object.keys(one).join('') === 'type');
  if (isPlain && types.every((type) => type === 'string' || type === 'integer'))
    return { 'x-kubernetes-int-or-string': true, ...nullable };
  return refused(path, 'a union can only be of literals of one type, of integer and string, or with null');
}

const each = (fields: JsonValue, pathOf: (name: string) => string): JsonObject =>
  Object.fromEntries(
    Object.entries(isJsonObject(fields) ? fields : {}).map(([name, field]) => [
      name,
      toStructural(field, pathOf(name)),
    ]),
  );

function refused(path: string, message: string): never {
  throw new UnusableInput(`${path}: ${message}`);
}
