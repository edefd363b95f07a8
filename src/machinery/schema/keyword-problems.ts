import { isEqual, type JsonValue } from '../../json/json.ts';
import type { Cause } from '../failure.ts';
import { forbiddenValue, invalidValue, notAmong, requiredValue, unsupportedValue, when } from './causes.ts';
import { branchesOf, furtherSchema, property, schemaToJson, type Schema } from './schema.ts';
import { prune } from './prune.ts';
import { validateSchema } from './validate.ts';

/** The position of a keyword in the schema, which determines what is allowed. */
interface Within {
  readonly root: boolean;
  /** Whether it is inside apiVersion, kind or metadata of the object or of an embedded object. */
  readonly metadata: boolean;
  /** The reason why defaults are not allowed, e.g. `in top-level metadata`. */
  readonly noDefaults: string | undefined;
}

const ROOT: Within = { root: true, metadata: false, noDefaults: undefined };

export function keywordProblems(schema: Schema, path: string, within: Within = ROOT): readonly Cause[] {
  return [
    ...standardProblems(schema, path, within),
    ...mapProblems(schema, path),
    ...childProblems(schema, path, within),
    ...when(
      schema['x-kubernetes-preserve-unknown-fields'] === false,
      invalidValue(`${path}.x-kubernetes-preserve-unknown-fields`, false, 'must be true or undefined'),
    ),
    ...mapTypeProblems(schema, path),
    ...listTypeProblems(schema, path),
  ];
}

const NOT_SUPPORTED = ['id', 'additionalItems', 'patternProperties', 'definitions', 'dependencies', '$ref'];

const TYPES = ['array', 'boolean', 'integer', 'number', 'object', 'string'];

function standardProblems(schema: Schema, path: string, within: Within): readonly Cause[] {
  const json = schemaToJson(schema);
  const type: JsonValue | undefined = json.type;
  const forbidden = (keyword: string, detail: string) => forbiddenValue(`${path}.${keyword}`, detail);
  return [
    ...when(
      type !== undefined && !TYPES.some((known) => known === type),
      unsupportedValue(`${path}.type`, type ?? null, TYPES),
    ),
    ...when(
      schema.default !== undefined && within.noDefaults !== undefined,
      forbidden('default', `must not be set ${within.noDefaults ?? ''}`),
    ),
    ...NOT_SUPPORTED.filter((keyword) => json[keyword] !== undefined).map((keyword) =>
      forbidden(keyword, `${keyword} is not supported`),
    ),
    ...when(type === 'null', forbidden('type', 'type cannot be set to null, use nullable as an alternative')),
    ...when(
      Array.isArray(schema.items),
      forbidden('items', 'items must be a schema object and not an array'),
    ),
    ...when(
      within.metadata && schema['x-kubernetes-embedded-resource'] === true,
      forbidden('x-kubernetes-embedded-resource', 'must not be used inside of resource meta'),
    ),
    ...when(
      schema.uniqueItems === true,
      forbidden(
        'uniqueItems',
        'uniqueItems cannot be set to true since the runtime complexity becomes quadratic',
      ),
    ),
  ];
}

function mapProblems({ additionalProperties, properties = {} }: Schema, path: string): readonly Cause[] {
  const isTyped = additionalProperties !== undefined && additionalProperties !== true;
  const detail = 'additionalProperties and properties are mutual exclusive';
  return when(
    isTyped && Object.keys(properties).length > 0,
    forbiddenValue(`${path}.additionalProperties`, detail),
  );
}

function childProblems(schema: Schema, path: string, within: Within): readonly Cause[] {
  const { additionalProperties: further, items, properties = {} } = schema;
  const below: Within = { ...within, root: false };
  const ofMap: Within = within.metadata
    ? { ...below, noDefaults: 'inside additionalProperties applying to object metadata' }
    : below;
  return [
    ...(typeof further === 'object' ? keywordProblems(further, `${path}.additionalProperties`, ofMap) : []),
    ...Object.entries(properties).flatMap(([name, child]) =>
      keywordProblems(child, `${path}.properties[${name}]`, withinProperty(schema, name, within)),
    ),
    ...branchesOf(schema).flatMap(([branch, place]) => keywordProblems(branch, `${path}.${place}`, below)),
    ...(items === undefined || Array.isArray(items) ? [] : keywordProblems(items, `${path}.items`, below)),
  ];
}

function withinProperty(schema: Schema, name: string, within: Within): Within {
  const below: Within = { ...within, root: false };
  const hasMeta = within.root || schema['x-kubernetes-embedded-resource'] === true;
  if (!hasMeta || !['apiVersion', 'kind', 'metadata'].includes(name)) return below;
  return {
    ...below,
    metadata: true,
    noDefaults: within.root ? `in top-level ${name}` : within.noDefaults,
  };
}

export function defaultProblems(schema: Schema, path: string): readonly Cause[] {
  const { default: value, items, properties = {} } = schema;
  const further = furtherSchema(schema);
  return [
    ...(value === undefined || value === null ? [] : ofDefault(value, schema, `${path}.default`)),
    ...(items === undefined ? [] : defaultProblems(items, `${path}.items`)),
    ...Object.entries(properties).flatMap(([name, child]) =>
      defaultProblems(child, `${path}.properties[${name}]`),
    ),
    ...(further === undefined ? [] : defaultProblems(further, `${path}.additionalProperties`)),
  ];
}

function ofDefault(value: JsonValue, schema: Schema, path: string): readonly Cause[] {
  const loses = !isEqual(prune(value, schema).value, value);
  return [
    ...when(loses, invalidValue(path, value, 'must not have unknown fields')),
    ...validateSchema(value, schema).map((cause) => ({
      ...cause,
      field: cause.field === '<nil>' ? path : `${path}.${cause.field}`,
    })),
  ];
}

function mapTypeProblems(schema: Schema, path: string): readonly Cause[] {
  const mapType = schema['x-kubernetes-map-type'];
  if (mapType === undefined) return [];
  return [
    ...wrongType(schema, path, 'object', 'x-kubernetes-map-type'),
    ...notAmong(`${path}.x-kubernetes-map-type`, mapType, ['atomic', 'granular']),
  ];
}

function listTypeProblems(schema: Schema, path: string): readonly Cause[] {
  const listType = schema['x-kubernetes-list-type'];
  return [
    ...(listType === undefined ? [] : ofListType(schema, listType, path)),
    ...keysWithoutMap(schema, path),
    ...(listType === 'map' ? ofMapList(schema, path) : []),
    ...(listType === 'map' || listType === 'set' ? ofUniqueItems(schema, listType, path) : []),
  ];
}

function ofListType(schema: Schema, listType: string, path: string): readonly Cause[] {
  const wrong = wrongType(schema, path, 'array', 'x-kubernetes-list-type');
  return [
    ...wrong,
    ...(wrong.length === 0 && listType === 'set' ? mergedItems(schema.items, `${path}.items`) : []),
    ...notAmong(`${path}.x-kubernetes-list-type`, listType, ['atomic', 'set', 'map']),
  ];
}

/** Set items are compared as whole values, so they must not be mergeable. */
function mergedItems(items: Schema | undefined, path: string): readonly Cause[] {
  const detail = 'must be atomic as item of a list with x-kubernetes-list-type=set';
  const listType = items?.['x-kubernetes-list-type'];
  if (items?.type === 'array' && listType !== undefined && listType !== 'atomic') {
    return [invalidValue(`${path}.x-kubernetes-list-type`, listType, detail)];
  }
  if (items?.type === 'object' && items['x-kubernetes-map-type'] !== 'atomic') {
    return [invalidValue(`${path}.x-kubernetes-map-type`, listType ?? null, detail)];
  }
  return [];
}

function keysWithoutMap(schema: Schema, path: string): readonly Cause[] {
  const listType = schema['x-kubernetes-list-type'];
  if ((schema['x-kubernetes-list-map-keys'] ?? []).length === 0 || listType === 'map') return [];
  const detail = 'must be map if x-kubernetes-list-map-keys is non-empty';
  return [invalidOrMissing(`${path}.x-kubernetes-list-type`, listType, detail)];
}

function ofMapList(schema: Schema, path: string): readonly Cause[] {
  const { items, 'x-kubernetes-list-map-keys': keys = [] } = schema;
  const noKeys = 'must not be empty if x-kubernetes-list-type is map';
  return [
    ...when(keys.length === 0, requiredValue(`${path}.x-kubernetes-list-map-keys`, noKeys)),
    ...ofMapItems(items, keys, path),
  ];
}

function ofMapItems(items: Schema | undefined, keys: readonly string[], path: string): readonly Cause[] {
  if (items === undefined)
    return [requiredValue(`${path}.items`, 'must have a schema if x-kubernetes-list-type is map')];
  if (items.type === 'object') return keys.flatMap((_, index) => ofMapKey(items, keys, index, path));
  const detail = "must be object if parent array's x-kubernetes-list-type is map";
  return [invalidValue(`${path}.items.type`, items.type ?? '', detail)];
}

function ofMapKey(items: Schema, keys: readonly string[], index: number, path: string): readonly Cause[] {
  const field = `${path}.x-kubernetes-list-map-keys`;
  const key = keys[index] ?? '';
  const schema = property(items, key);
  const detail = "must be a scalar type if parent array's x-kubernetes-list-type is map";
  return [
    ...when(schema === undefined, invalidValue(field, keys, 'entries must all be names of item properties')),
    ...when(
      schema?.type === 'array' || schema?.type === 'object',
      // The API server prints the type of the items here, not of the property.
      invalidValue(`${path}.items.properties[${key}].type`, items.type ?? '', detail),
    ),
    ...when(keys.indexOf(key) < index, invalidValue(field, keys, 'must not contain duplicate entries')),
  ];
}

function ofUniqueItems({ items, ...schema }: Schema, listType: string, path: string): readonly Cause[] {
  if (items === undefined) return [];
  const nullable = `cannot be nullable when x-kubernetes-list-type is ${listType}`;
  const keys = listType === 'map' ? (schema['x-kubernetes-list-map-keys'] ?? []) : [];
  return [
    ...when(items.nullable === true, forbiddenValue(`${path}.items.nullable`, nullable)),
    ...keys.flatMap((key) => {
      const own = property(items, key);
      return own === undefined ? [] : presenceOfKey(items, key, own, `${path}.items.properties[${key}]`);
    }),
  ];
}

/** Every item must have every key; otherwise items could not be identified. */
function presenceOfKey(items: Schema, key: string, schema: Schema, path: string): readonly Cause[] {
  const isPresent =
    items.required?.includes(key) === true || (schema.default !== undefined && schema.default !== null);
  const why = 'this property is in x-kubernetes-list-map-keys, so it';
  return [
    ...when(
      !isPresent,
      requiredValue(`${path}.default`, `${why} must have a default or be a required property`),
    ),
    ...when(schema.nullable === true, forbiddenValue(`${path}.nullable`, `${why} cannot be nullable`)),
  ];
}

const wrongType = ({ type }: Schema, path: string, wanted: string, keyword: string): readonly Cause[] =>
  when(
    type !== wanted,
    invalidOrMissing(`${path}.type`, type, `must be ${wanted} if ${keyword} is specified`),
  );

export const invalidOrMissing = (field: string, value: string | undefined, detail: string): Cause =>
  value === undefined ? requiredValue(field, detail) : invalidValue(field, value, detail);
