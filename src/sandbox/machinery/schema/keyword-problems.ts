import { type JsonValue, isEqual } from '../../../json/json.ts';
import type { Cause } from '../failure.ts';
import { forbiddenValue, invalidValue, unsupportedValue } from './causes.ts';
import { listTypeProblems, mapTypeProblems } from './list-type-problems.ts';
import { ruleTextProblems } from './rules/rule-problems.ts';
import { schemaToJson, type Schema, furtherSchema } from './schema.ts';
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
