import type { Cause } from '../failure.ts';
import { forbiddenValue, invalidValue, requiredValue, unsupportedValue } from './causes.ts';
import { type Schema, property } from './schema.ts';

/** The problems of `x-kubernetes-map-type`. */
export function mapTypeProblems(schema: Schema, path: string): readonly Cause[] {
  const mapType = schema['x-kubernetes-map-type'];
  if (mapType === undefined) return [];
  return [
    ...wrongType(schema, path, 'object', 'x-kubernetes-map-type'),
    ...unsupported(mapType, ['atomic', 'granular'], `${path}.x-kubernetes-map-type`),
  ];
}

/** The problems of `x-kubernetes-list-type` and `x-kubernetes-list-map-keys`. */
export function listTypeProblems(schema: Schema, path: string): readonly Cause[] {
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
