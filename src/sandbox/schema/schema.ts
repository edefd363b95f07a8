import type { JsonObject, JsonValue } from '../../json/json.ts';

/**
 * A structural schema: what `openAPIV3Schema` of a CRD may say. Built-in kinds are described in the same words, so that one
 * machine prunes, defaults, validates, merges and explains both.
 *
 * @see https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definitions/#specifying-a-structural-schema
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
  /** Only built-in kinds: how a strategic merge patch merges the list (custom resources have no strategic merge). */
  readonly 'x-kubernetes-patch-strategy'?: 'merge' | 'replace' | 'retainKeys' | 'merge,retainKeys';
  /** Only built-in kinds: what tells items of a merged list apart. Absent: items are values. */
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

/** Any value, kept as it is. */
export const ANYTHING: Schema = { 'x-kubernetes-preserve-unknown-fields': true };

/** A Schema as the JSON that it is, for OpenAPI documents. */
export function schemaToJson(schema: Schema): JsonObject {
  return schema as unknown as JsonObject; // every field is JSON; only `readonly … | undefined` keeps TypeScript from seeing it
}
