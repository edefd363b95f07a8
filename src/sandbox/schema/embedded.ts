import { isJsonArray, isJsonObject, type JsonObject, type JsonValue } from '../../json/json.ts';
import type { Cause } from '../failure.ts';
import { invalidValue, requiredValue } from './causes.ts';
import type { Schema } from './schema.ts';
import { anywhere, furtherSchema, property } from './schema-children.ts';

const KIND = /^[a-z](?:[-a-z0-9]*[a-z0-9])?$/i;
const KIND_RULE =
  "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')";

/**
 * What is wrong with apiVersion, kind and metadata of embedded objects (`x-kubernetes-embedded-resource`).
 * Follows k8s.io/apiextensions-apiserver/pkg/apiserver/schema/objectmeta, without the syntax of metadata's fields.
 */
export function embeddedProblems(value: JsonValue, schema: Schema, path = ''): readonly Cause[] {
  if (!hasEmbedded(schema)) return [];
  if (isJsonArray(value)) {
    const { items } = schema;
    if (items === undefined) return [];
    return value.flatMap((item, index) => embeddedProblems(item, items, `${path}[${index}]`));
  }
  if (!isJsonObject(value)) return [];
  const further = furtherSchema(schema);
  return [
    ...(schema['x-kubernetes-embedded-resource'] === true ? ofEmbedded(value, path) : []),
    ...Object.entries(value).flatMap(([key, field]) => {
      const own = property(schema, key);
      if (own !== undefined) return embeddedProblems(field, own, path === '' ? key : `${path}.${key}`);
      return further === undefined ? [] : embeddedProblems(field, further, `${path}[${key}]`);
    }),
  ];
}

function ofEmbedded(object: JsonObject, path: string): readonly Cause[] {
  const text = (name: string) => (Object.hasOwn(object, name) ? object[name] : undefined);
  const [apiVersion, kind, metadata] = [text('apiVersion'), text('kind'), text('metadata')];
  return [
    ...nameProblems(apiVersion, `${path}.apiVersion`),
    ...nameProblems(kind, `${path}.kind`),
    ...(typeof kind === 'string' && kind !== '' && !(KIND.test(kind) && kind.length <= 63)
      ? [invalidValue(`${path}.kind`, kind, `may have mixed case, but should otherwise match: ${KIND_RULE}`)]
      : []),
    ...(metadata === undefined || metadata === null || isJsonObject(metadata)
      ? []
      : [invalidValue(`${path}.metadata`, metadata, 'must be an object')]),
  ];
}

function nameProblems(value: JsonValue | undefined, path: string): readonly Cause[] {
  if (value === undefined || value === '') return [requiredValue(path, 'must not be empty')];
  if (typeof value === 'string') return [];
  return [invalidValue(path, value, 'must be a string')];
}

const hasEmbedded = anywhere((schema) => schema['x-kubernetes-embedded-resource'] === true);
