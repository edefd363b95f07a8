import type { JsonObject } from '../../../src/json/json.ts';
import { ofJson, toJson, type ApiObject } from '../../../src/machinery/api-object.ts';
import { apiVersionOf, type ResourceType } from '../../../src/machinery/resource-type.ts';
import { applyDefaults } from '../../../src/machinery/schema/default.ts';
import { wholeSchema } from '../../../src/machinery/schema/object-meta.ts';
import { prune } from '../../../src/machinery/schema/prune.ts';
import { builtInTypes } from '../../../src/machinery/kinds/built-in-types.ts';

const echo = (object: ApiObject) => object;

/** All built-in kinds, with allocators that always return the same values. */
export const TYPES: readonly ResourceType[] = builtInTypes(
  {
    TokenReview: echo,
    SelfSubjectReview: echo,
    SubjectAccessReview: echo,
    SelfSubjectAccessReview: echo,
    SelfSubjectRulesReview: echo,
  },
  { allocateClusterIp: () => '10.0.0.7', allocateNodePort: () => 30_007 },
);

export function typeOf(name: string): ResourceType {
  const found = TYPES.find((type) => `${apiVersionOf(type)} ${type.kind}` === name);
  if (found === undefined) throw new Error(`no kind ${name}`);
  return found;
}

export function decoded(
  kind: string,
  fields: JsonObject,
  metadata: JsonObject = { name: 'x', namespace: 'default' },
) {
  const type = typeOf(kind);
  const [apiVersion = ''] = kind.split(' ');
  const schema = wholeSchema(type);
  const { value, unknown } = prune({ apiVersion, kind: type.kind, metadata, ...fields }, schema);
  if (unknown.length > 0) throw new Error(`unknown fields: ${unknown.join(', ')}`);
  const object = ofJson(applyDefaults(value, schema));
  return type.strategy.completeDefaults?.(object) ?? object;
}

export const created = (kind: string, fields: JsonObject, metadata?: JsonObject): ApiObject =>
  typeOf(kind).strategy.prepareForCreate(decoded(kind, fields, metadata));

export const updated = (kind: string, fields: JsonObject, old: ApiObject): ApiObject =>
  typeOf(kind).strategy.prepareForUpdate(decoded(kind, fields, toJson(old).metadata as JsonObject), old); // metadata is JSON

export const createProblems = (kind: string, fields: JsonObject, metadata?: JsonObject): readonly string[] =>
  typeOf(kind)
    .strategy.validate(created(kind, fields, metadata))
    .map(({ field, message }) => `${field}: ${message}`);

export const updateProblems = (kind: string, fields: JsonObject, old: ApiObject): readonly string[] =>
  typeOf(kind)
    .strategy.validateUpdate(updated(kind, fields, old), old)
    .map(({ field, message }) => `${field}: ${message}`);
