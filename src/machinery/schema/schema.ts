import { type JsonObject, type JsonValue, isEqual, isJsonArray, isJsonObject } from '../../json/json.ts';

/**
 * A structural schema: the keywords that `openAPIV3Schema` of a CRD may use. Built-in kinds use the same keywords, so
 * that one implementation prunes, defaults, validates, merges and explains both.
 *
 * @see
 *   https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definitions/#specifying-a-structural-schema
 */
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

/** A CEL rule of a CRD (`x-kubernetes-validations`). */
export interface ValidationRule {
  readonly rule: string;
  readonly message?: string;
  readonly messageExpression?: string;
  readonly reason?: string;
  readonly fieldPath?: string;
  readonly optionalOldSelf?: boolean;
}

/** Any value, kept unchanged. */
export const ANYTHING: Schema = { 'x-kubernetes-preserve-unknown-fields': true };

/** A Schema as JSON, for OpenAPI documents. */
export function schemaToJson(schema: Schema): JsonObject {
  return schema as unknown as JsonObject; // every field is JSON; TypeScript only objects to `readonly … | undefined`
}

/** The schema of a declared property, whatever its name (even `constructor`). */
export function property(schema: Schema, name: string): Schema | undefined {
  const { properties } = schema;
  return properties !== undefined && Object.hasOwn(properties, name) ? properties[name] : undefined;
}

/**
 * The schema of a field: of a declared property, otherwise of additionalProperties. Undefined: the field is unknown
 * or may hold anything.
 */
export function childSchema(schema: Schema, name: string): Schema | undefined {
  return property(schema, name) ?? furtherSchema(schema);
}

/** The schema of additionalProperties. */
export function furtherSchema({ additionalProperties }: Schema): Schema | undefined {
  return typeof additionalProperties === 'object' ? additionalProperties : undefined;
}

/**
 * Whether `test` holds for a schema or any schema below it, except in branches. Memoised by schema: walks over
 * objects ask at every step, and the answer is mostly no at the root.
 */
export function anywhere(test: (schema: Schema) => boolean): (schema: Schema) => boolean {
  const remembered = new WeakMap<Schema, boolean>();
  const isAnywhere = (schema: Schema): boolean => {
    const known = remembered.get(schema);
    if (known !== undefined) return known;
    const children = [...Object.values(schema.properties ?? {}), furtherSchema(schema), schema.items];
    const found = test(schema) || children.some((child) => child !== undefined && isAnywhere(child));
    remembered.set(schema, found);
    return found;
  };
  return isAnywhere;
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
