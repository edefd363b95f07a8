import { isJsonArray, isJsonObject, type JsonObject, type JsonValue } from '../../json/json.ts';

/** What a schema keyword holds, as far as pruning needs to know. */
type Keyword = 'empty-is-absent' | 'kept' | 'schema' | 'schema-or-flag' | 'schemas' | 'named-schemas';

/**
 * JSONSchemaProps of apiextensions.k8s.io/v1. A keyword that is missing here does not survive decoding. A keyword
 * that Go decodes into a plain value with `omitempty` is dropped when empty.
 */
const KEYWORDS: Readonly<Record<string, Keyword>> = {
  id: 'empty-is-absent',
  $schema: 'empty-is-absent',
  $ref: 'kept',
  description: 'empty-is-absent',
  type: 'empty-is-absent',
  format: 'empty-is-absent',
  title: 'empty-is-absent',
  default: 'kept',
  maximum: 'kept',
  exclusiveMaximum: 'empty-is-absent',
  minimum: 'kept',
  exclusiveMinimum: 'empty-is-absent',
  maxLength: 'kept',
  minLength: 'kept',
  pattern: 'empty-is-absent',
  maxItems: 'kept',
  minItems: 'kept',
  uniqueItems: 'empty-is-absent',
  multipleOf: 'kept',
  enum: 'empty-is-absent',
  maxProperties: 'kept',
  minProperties: 'kept',
  required: 'empty-is-absent',
  items: 'schema',
  allOf: 'schemas',
  oneOf: 'schemas',
  anyOf: 'schemas',
  not: 'schema',
  properties: 'named-schemas',
  additionalProperties: 'schema-or-flag',
  patternProperties: 'named-schemas',
  dependencies: 'kept',
  additionalItems: 'schema-or-flag',
  definitions: 'named-schemas',
  externalDocs: 'kept',
  example: 'kept',
  nullable: 'empty-is-absent',
  'x-kubernetes-preserve-unknown-fields': 'kept',
  'x-kubernetes-embedded-resource': 'empty-is-absent',
  'x-kubernetes-int-or-string': 'empty-is-absent',
  'x-kubernetes-list-map-keys': 'empty-is-absent',
  'x-kubernetes-list-type': 'kept',
  'x-kubernetes-map-type': 'kept',
  'x-kubernetes-validations': 'empty-is-absent',
};

/** A schema as the API server stores it: only known keywords, without meaningless empty values. */
export function pruneSchemaProps(schema: JsonObject): JsonObject {
  const entries = Object.entries(schema).flatMap(([keyword, value]) => {
    const kind = Object.hasOwn(KEYWORDS, keyword) ? KEYWORDS[keyword] : undefined;
    const kept = kind === undefined || value === null ? undefined : pruneValue(value, kind);
    return kept === undefined ? [] : [[keyword, kept] as const];
  });
  return Object.fromEntries(entries);
}

function pruneValue(value: JsonValue, kind: Keyword): JsonValue | undefined {
  switch (kind) {
    case 'kept':
      return value;
    case 'empty-is-absent':
      return isEmpty(value) ? undefined : value;
    case 'schema':
    case 'schema-or-flag':
      return isJsonObject(value) ? pruneSchemaProps(value) : value;
    case 'schemas':
      if (!isJsonArray(value)) return value;
      return value.length === 0
        ? undefined
        : value.map((item) => (isJsonObject(item) ? pruneSchemaProps(item) : item));
    case 'named-schemas':
      if (!isJsonObject(value)) return value;
      return isEmpty(value)
        ? undefined
        : Object.fromEntries(
            Object.entries(value).map(([name, item]) => [
              name,
              isJsonObject(item) ? pruneSchemaProps(item) : item,
            ]),
          );
  }
}

const isEmpty = (value: JsonValue) =>
  value === '' ||
  value === false ||
  (typeof value === 'object' && value !== null && Object.keys(value).length === 0);
