import { isEqual, type JsonValue } from '../../json/json.ts';
import type { Cause } from '../failure.ts';
import { forbiddenValue, invalidValue, unsupportedValue, requiredValue } from './causes.ts';
import { ruleTextProblems } from './rules/rule-problems.ts';
import { schemaToJson, furtherSchema, property, type Schema } from './schema.ts';
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

/** Keywords that CRDs may not use, or may not use in this form, anywhere in the schema. */
export function keywordProblems(schema: Schema, path: string): readonly Cause[] {
  return problems(schema, path, { root: true, metadata: false, noDefaults: undefined });
}

function problems(schema: Schema, path: string, within: Within): readonly Cause[] {
  return [
    ...standardProblems(schema, path, within),
    ...mapProblems(schema, path),
    ...childProblems(schema, path, within),
    ...(schemaToJson(schema)['x-kubernetes-preserve-unknown-fields'] === false
      ? [invalidValue(`${path}.x-kubernetes-preserve-unknown-fields`, false, 'must be true or undefined')]
      : []),
    ...mapTypeProblems(schema, path),
    ...listTypeProblems(schema, path),
    ...ruleTextProblems(schema, path),
  ];
}

const NOT_SUPPORTED = ['id', 'additionalItems', 'patternProperties', 'definitions', 'dependencies', '$ref'];

const TYPES = ['array', 'boolean', 'integer', 'number', 'object', 'string'];

function standardProblems(schema: Schema, path: string, within: Within): readonly Cause[] {
  const json = schemaToJson(schema);
  const type: JsonValue | undefined = json.type;
  const causes: Cause[] = [];
  if (type !== undefined && !TYPES.some((known) => known === type)) {
    causes.push(unsupportedValue(`${path}.type`, type, TYPES));
  }
  if (schema.default !== undefined && within.noDefaults !== undefined) {
    causes.push(forbiddenValue(`${path}.default`, `must not be set ${within.noDefaults}`));
  }
  for (const keyword of NOT_SUPPORTED) {
    if (json[keyword] !== undefined) {
      causes.push(forbiddenValue(`${path}.${keyword}`, `${keyword} is not supported`));
    }
  }
  if (type === 'null') {
    const detail = 'type cannot be set to null, use nullable as an alternative';
    causes.push(forbiddenValue(`${path}.type`, detail));
  }
  if (Array.isArray(schema.items)) {
    causes.push(forbiddenValue(`${path}.items`, 'items must be a schema object and not an array'));
  }
  if (within.metadata && schema['x-kubernetes-embedded-resource'] === true) {
    const detail = 'must not be used inside of resource meta';
    causes.push(forbiddenValue(`${path}.x-kubernetes-embedded-resource`, detail));
  }
  if (schema.uniqueItems === true) {
    const detail = 'uniqueItems cannot be set to true since the runtime complexity becomes quadratic';
    causes.push(forbiddenValue(`${path}.uniqueItems`, detail));
  }
  return causes;
}

function mapProblems({ additionalProperties, properties = {} }: Schema, path: string): readonly Cause[] {
  if (additionalProperties === undefined || additionalProperties === true) return [];
  if (Object.keys(properties).length === 0) return [];
  const detail = 'additionalProperties and properties are mutual exclusive';
  return [forbiddenValue(`${path}.additionalProperties`, detail)];
}

function childProblems(schema: Schema, path: string, within: Within): readonly Cause[] {
  const { additionalProperties: further, items, not, properties = {} } = schema;
  const below: Within = { ...within, root: false };
  const ofMap: Within = within.metadata
    ? { ...below, noDefaults: 'inside additionalProperties applying to object metadata' }
    : below;
  return [
    ...(typeof further === 'object' ? problems(further, `${path}.additionalProperties`, ofMap) : []),
    ...Object.entries(properties).flatMap(([name, child]) =>
      problems(child, `${path}.properties[${name}]`, withinProperty(schema, name, within)),
    ),
    ...(not === undefined ? [] : problems(not, `${path}.not`, below)),
    ...(['allOf', 'oneOf', 'anyOf'] as const).flatMap((kind) =>
      (schema[kind] ?? []).flatMap((branch, index) => problems(branch, `${path}.${kind}[${index}]`, below)),
    ),
    ...(items === undefined || Array.isArray(items) ? [] : problems(items, `${path}.items`, below)),
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

/**
 * Rejects defaults that their own schema would prune or not accept. Follows defaulting.ValidateDefaults of
 * k8s.io/apiextensions-apiserver.
 */
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
  const pruned = isEqual(prune(value, schema).value, value);
  return [
    ...(pruned ? [] : [invalidValue(path, value, 'must not have unknown fields')]),
    ...validateSchema(value, schema).map((cause) => ({
      ...cause,
      field: cause.field === '<nil>' ? path : `${path}.${cause.field}`,
    })),
  ];
}

/** The problems of `x-kubernetes-map-type`. */
function mapTypeProblems(schema: Schema, path: string): readonly Cause[] {
  const mapType = schema['x-kubernetes-map-type'];
  if (mapType === undefined) return [];
  return [
    ...wrongType(schema, path, 'object', 'x-kubernetes-map-type'),
    ...unsupported(mapType, ['atomic', 'granular'], `${path}.x-kubernetes-map-type`),
  ];
}

/** The problems of `x-kubernetes-list-type` and `x-kubernetes-list-map-keys`. */
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
    ...unsupported(listType, ['atomic', 'set', 'map'], `${path}.x-kubernetes-list-type`),
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
  const field = `${path}.x-kubernetes-list-type`;
  const detail = 'must be map if x-kubernetes-list-map-keys is non-empty';
  return [listType === undefined ? requiredValue(field, detail) : invalidValue(field, listType, detail)];
}

function ofMapList(schema: Schema, path: string): readonly Cause[] {
  const { items, 'x-kubernetes-list-map-keys': keys = [] } = schema;
  const field = `${path}.x-kubernetes-list-map-keys`;
  return [
    ...(keys.length === 0
      ? [requiredValue(field, 'must not be empty if x-kubernetes-list-type is map')]
      : []),
    ...(items === undefined
      ? [requiredValue(`${path}.items`, 'must have a schema if x-kubernetes-list-type is map')]
      : items.type === 'object'
        ? keys.flatMap((key, index) => ofMapKey(items, key, keys, index, path))
        : [
            invalidValue(
              `${path}.items.type`,
              items.type ?? '',
              "must be object if parent array's x-kubernetes-list-type is map",
            ),
          ]),
  ];
}

function ofMapKey(
  items: Schema,
  key: string,
  keys: readonly string[],
  index: number,
  path: string,
): readonly Cause[] {
  const field = `${path}.x-kubernetes-list-map-keys`;
  const schema = property(items, key);
  const causes: Cause[] = [];
  if (schema === undefined) {
    causes.push(invalidValue(field, keys, 'entries must all be names of item properties'));
  } else if (schema.type === 'array' || schema.type === 'object') {
    const detail = "must be a scalar type if parent array's x-kubernetes-list-type is map";
    // The API server prints the type of the items here, not of the property.
    causes.push(invalidValue(`${path}.items.properties[${key}].type`, items.type ?? '', detail));
  }
  if (keys.indexOf(key) < index) {
    causes.push(invalidValue(field, keys, 'must not contain duplicate entries'));
  }
  return causes;
}

function ofUniqueItems({ items, ...schema }: Schema, listType: string, path: string): readonly Cause[] {
  if (items === undefined) return [];
  const nullable = `cannot be nullable when x-kubernetes-list-type is ${listType}`;
  const keys = listType === 'map' ? (schema['x-kubernetes-list-map-keys'] ?? []) : [];
  return [
    ...(items.nullable === true ? [forbiddenValue(`${path}.items.nullable`, nullable)] : []),
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
    ...(isPresent
      ? []
      : [requiredValue(`${path}.default`, `${why} must have a default or be a required property`)]),
    ...(schema.nullable === true ? [forbiddenValue(`${path}.nullable`, `${why} cannot be nullable`)] : []),
  ];
}

function wrongType({ type }: Schema, path: string, wanted: string, keyword: string): readonly Cause[] {
  if (type === wanted) return [];
  const detail = `must be ${wanted} if ${keyword} is specified`;
  const field = `${path}.type`;
  return [type === undefined ? requiredValue(field, detail) : invalidValue(field, type, detail)];
}

const unsupported = (value: string, supported: readonly string[], field: string) =>
  supported.includes(value) ? [] : [unsupportedValue(field, value, supported)];
