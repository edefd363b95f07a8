import {
  isEqual,
  isJsonArray,
  isJsonObject,
  type JsonArray,
  type JsonObject,
  type JsonValue,
  memoizeWeak,
} from '../../json/json.ts';

/** A structural schema (keywords of `openAPIV3Schema` in a CRD). Built-in kinds use it too, so all code serves both. */
export interface Schema {
  readonly type?: 'object' | 'array' | 'string' | 'integer' | 'number' | 'boolean';
  readonly description?: string;
  readonly title?: string;
  readonly format?: string;
  readonly nullable?: boolean;
  readonly default?: JsonValue;
  readonly enum?: readonly JsonValue[];
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly additionalProperties?: Schema | boolean;
  readonly required?: readonly string[];
  readonly minProperties?: number;
  readonly maxProperties?: number;
  readonly items?: Schema;
  readonly minItems?: number;
  readonly maxItems?: number;
  readonly uniqueItems?: boolean;
  readonly pattern?: string;
  readonly minLength?: number;
  readonly maxLength?: number;
  readonly minimum?: number;
  readonly maximum?: number;
  readonly exclusiveMinimum?: boolean;
  readonly exclusiveMaximum?: boolean;
  readonly multipleOf?: number;
  readonly allOf?: readonly Schema[];
  readonly anyOf?: readonly Schema[];
  readonly oneOf?: readonly Schema[];
  readonly not?: Schema;
  readonly 'x-kubernetes-preserve-unknown-fields'?: boolean;
  readonly 'x-kubernetes-embedded-resource'?: boolean;
  readonly 'x-kubernetes-int-or-string'?: boolean;
  readonly 'x-kubernetes-list-type'?: 'atomic' | 'set' | 'map';
  readonly 'x-kubernetes-list-map-keys'?: readonly string[];
  readonly 'x-kubernetes-map-type'?: 'atomic' | 'granular';
  readonly 'x-kubernetes-validations'?: readonly ValidationRule[];
  /** Built-in kinds only: how a strategic merge patch merges the list (custom resources do not support it). */
  readonly 'x-kubernetes-patch-strategy'?: 'merge' | 'replace' | 'retainKeys' | 'merge,retainKeys';
  /** Built-in kinds only: the key of items in a merged list. Absent: items are scalar values. */
  readonly 'x-kubernetes-patch-merge-key'?: string;
}

export interface ValidationRule {
  readonly rule: string;
  readonly message?: string;
  readonly messageExpression?: string;
  readonly reason?: string;
  readonly fieldPath?: string;
  readonly optionalOldSelf?: boolean;
}

export const ANYTHING: Schema = { 'x-kubernetes-preserve-unknown-fields': true };

export function schemaToJson(schema: Schema): JsonObject {
  return schema as unknown as JsonObject; // every field is JSON; TypeScript only objects to `readonly … | undefined`
}

/** The schema of a declared property, even if its name is `constructor`. */
export function property(schema: Schema, name: string): Schema | undefined {
  const { properties } = schema;
  return properties !== undefined && Object.hasOwn(properties, name) ? properties[name] : undefined;
}

/** The schema of a declared property or of additionalProperties. Undefined if the field is unknown or can contain anything. */
export function childSchema(schema: Schema, name: string): Schema | undefined {
  return property(schema, name) ?? furtherSchema(schema);
}

export function furtherSchema({ additionalProperties }: Schema): Schema | undefined {
  return typeof additionalProperties === 'object' ? additionalProperties : undefined;
}

export function branchesOf(schema: Schema): readonly (readonly [branch: Schema, place: string])[] {
  const { not } = schema;
  return [
    ...(not === undefined ? [] : [[not, 'not'] as const]),
    ...(['allOf', 'oneOf', 'anyOf'] as const).flatMap((kind) =>
      (schema[kind] ?? []).map((branch, index) => [branch, `${kind}[${index}]`] as const),
    ),
  ];
}

/** Whether `test` is true for a schema or any schema below it, except in branches. */
export function anywhere(test: (schema: Schema) => boolean): (schema: Schema) => boolean {
  const isAnywhere: (schema: Schema) => boolean = memoizeWeak((schema) => {
    const children = [...Object.values(schema.properties ?? {}), furtherSchema(schema), schema.items];
    return test(schema) || children.some((child) => child !== undefined && isAnywhere(child));
  });
  return isAnywhere;
}

interface Below {
  readonly value: JsonValue;
  readonly schema: Schema;
  /** As the API server prints it. */
  readonly path: string;
  /** The name of a field or the index of an item. */
  readonly key: string | number;
}

export function valuesBelow(value: JsonValue, schema: Schema, path: string): readonly Below[] {
  const { items } = schema;
  if (isJsonArray(value)) {
    if (items === undefined) return [];
    return value.map((item, key) => ({ value: item, schema: items, path: `${path}[${key}]`, key }));
  }
  if (!isJsonObject(value)) return [];
  const further = furtherSchema(schema);
  return Object.entries(value).flatMap(([key, field]): readonly Below[] => {
    const own = property(schema, key);
    if (own !== undefined)
      return [{ value: field, schema: own, path: path === '' ? key : `${path}.${key}`, key }];
    return further === undefined ? [] : [{ value: field, schema: further, path: `${path}[${key}]`, key }];
  });
}

/** The old value of a field; undefined if it was absent or cannot be correlated because the map is atomic. */
export function oldField(schema: Schema, old: JsonValue | undefined, key: string): JsonValue | undefined {
  if (!isJsonObject(old) || schema['x-kubernetes-map-type'] === 'atomic') return undefined;
  return Object.hasOwn(old, key) ? old[key] : undefined;
}

/** The old value of a list item. Only lists of type map have items that can be correlated. */
export function oldItem(schema: Schema, old: JsonValue | undefined, item: JsonValue): JsonValue | undefined {
  const keys = schema['x-kubernetes-list-map-keys'] ?? [];
  if (schema['x-kubernetes-list-type'] !== 'map' || !isJsonArray(old) || !isJsonObject(item))
    return undefined;
  return old.find((candidate) => isJsonObject(candidate) && haveEqualKeys(candidate, item, keys));
}

const haveEqualKeys = (left: JsonObject, right: JsonObject, keys: readonly string[]) =>
  keys.every((key) => isEqual(keyOf(left, key), keyOf(right, key)));

const keyOf = (item: JsonObject, key: string) => (Object.hasOwn(item, key) ? item[key] : undefined);

/** Changes every value; drops a field if `change` returns undefined. Returns the same reference if nothing changes. */
export function changeFields(
  object: JsonObject,
  change: (value: JsonValue, key: string) => JsonValue | undefined,
): JsonObject {
  let changed: [string, JsonValue][] | undefined;
  const keys = Object.keys(object);
  for (const [index, key] of keys.entries()) {
    const before = object[key] as JsonValue; // `key` is an own property
    const after = change(before, key);
    if (after === before && changed === undefined) continue;
    changed ??= keys.slice(0, index).map((earlier) => [earlier, object[earlier] as JsonValue]); // as above
    if (after !== undefined) changed.push([key, after]);
  }
  return changed === undefined ? object : Object.fromEntries(changed);
}

export function changeItems(list: JsonArray, change: (item: JsonValue) => JsonValue): JsonArray {
  let changed: JsonValue[] | undefined;
  for (const [index, before] of list.entries()) {
    const after = change(before);
    if (after !== before) changed ??= list.slice(0, index);
    changed?.push(after);
  }
  return changed ?? list;
}
