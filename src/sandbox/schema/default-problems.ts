import { isEqual, type JsonValue } from '../../json/json.ts';
import type { Cause } from '../failure.ts';
import { invalidValue } from './causes.ts';
import { prune } from './prune.ts';
import type { Schema } from './schema.ts';
import { furtherSchema } from './schema-children.ts';
import { validateSchema } from './validate.ts';

/** Defaults that their own schema would prune or refuse. Follows defaulting.ValidateDefaults of k8s.io/apiextensions-apiserver. */
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
