import { Ajv, type ErrorObject, type ValidateFunction } from 'ajv';

import { compilePattern } from '../../cel/regular-expression.ts';
import { type JsonValue, memoizeWeak, pick } from '../../json/json.ts';
import { checkedFormat, isFitBound, NUMBER_FORMATS, TEXT_FORMATS } from './formats.ts';
import { furtherSchema, type Schema } from './schema.ts';

/** A Schema for Ajv (draft 7). Every node is a separate object, so that errors can be matched to nodes. */
export interface JsonSchema {
  type?: readonly string[];
  format?: string;
  enum?: readonly JsonValue[];
  properties?: Readonly<Record<string, JsonSchema>>;
  additionalProperties?: JsonSchema | boolean;
  required?: readonly string[];
  minProperties?: number;
  maxProperties?: number;
  items?: JsonSchema;
  minItems?: number;
  maxItems?: number;
  uniqueItems?: boolean;
  pattern?: string;
  minLength?: number;
  maxLength?: number;
  minimum?: number;
  maximum?: number;
  exclusiveMinimum?: number;
  exclusiveMaximum?: number;
  multipleOf?: number;
  /** Our own keyword, which no number satisfies: the bounds that the field itself cannot hold. */
  unfitBounds?: readonly (keyof JsonSchema)[];
  if?: { readonly type: 'null' };
  /** Keywords that do not apply to null: the node with allOf, anyOf, oneOf and not. */
  else?: JsonSchema;
  allOf?: readonly JsonSchema[];
  anyOf?: readonly JsonSchema[];
  oneOf?: readonly JsonSchema[];
  not?: JsonSchema;
}

export type CompiledSchema = ReturnType<typeof compileSchema>;

/** // Go's regular expressions are RE2. An invalid pattern matches nothing; CRDs with one are rejected earlier. */
const re2 = Object.assign(
  (pattern: string) => {
    try {
      return compilePattern(pattern);
    } catch {
      return { test: () => false };
    }
  },
  { code: 're2' },
);

const ajv = new Ajv({
  allErrors: true,
  verbose: true, // errors include their node
  strict: false,
  strictNumbers: true,
  validateSchema: false,
  meta: false,
  addUsedSchema: false,
  ownProperties: true, // a field may be named `constructor`
  logger: false,
  code: { regExp: re2, optimize: false }, // optimising takes longer than it saves: most schemas check few objects
});
for (const [name, validate] of Object.entries(TEXT_FORMATS)) ajv.addFormat(name, validate);
for (const [name, validate] of Object.entries(NUMBER_FORMATS)) {
  ajv.addFormat(name, { type: 'number', validate });
}

ajv.addKeyword({ keyword: 'unfitBounds', type: 'number', validate: () => false });

/** Compiled once per schema, which takes milliseconds for a large one. */
export const compileSchema = memoizeWeak((schema: Schema) => {
  const root = toJsonSchema(schema);
  const validate: ValidateFunction = ajv.compile(root);
  ajv.removeSchema(root); // otherwise Ajv would retain the schemas of deleted CRDs
  const check = (value: JsonValue): readonly ErrorObject[] =>
    validate(value) ? [] : (validate.errors ?? []);
  return { root, check };
});

const COPIED = [
  ...(['enum', 'required', 'minProperties', 'maxProperties', 'minItems', 'maxItems', 'uniqueItems'] as const),
  ...(['pattern', 'minLength', 'maxLength', 'multipleOf'] as const),
];

function toJsonSchema(schema: Schema): JsonSchema {
  const format = checkedFormat(schema);
  const further = furtherSchema(schema);
  const node: JsonSchema = {
    ...typeOf(schema),
    ...(format === undefined ? {} : { format }),
    ...withDoubles(pick(schema, ...COPIED)),
    ...defined('properties', schema.properties && mapValues(schema.properties, toJsonSchema)),
    ...defined(
      'additionalProperties',
      further === undefined ? falseOnly(schema.additionalProperties) : toJsonSchema(further),
    ),
    ...defined('items', schema.items && toJsonSchema(schema.items)),
    ...defined(schema.exclusiveMinimum === true ? 'exclusiveMinimum' : 'minimum', schema.minimum),
    ...defined(schema.exclusiveMaximum === true ? 'exclusiveMaximum' : 'maximum', schema.maximum),
  };
  const unfit = BOUNDS.filter((name) => node[name] !== undefined && !isFitBound(node[name], schema));
  return withBranches(unfit.length === 0 ? node : { ...node, unfitBounds: unfit }, schema);
}

const BOUNDS = ['multipleOf', 'minimum', 'exclusiveMinimum', 'maximum', 'exclusiveMaximum'] as const;

/** The API server evaluates branches only for values other than null. */
function withBranches(node: JsonSchema, schema: Schema): JsonSchema {
  const branches: JsonSchema = {
    ...defined('allOf', schema.allOf?.map(toJsonSchema)),
    ...defined('anyOf', schema.anyOf?.map(toJsonSchema)),
    ...defined('oneOf', schema.oneOf?.map(toJsonSchema)),
    ...defined('not', schema.not && toJsonSchema(schema.not)),
  };
  if (Object.keys(branches).length === 0) return node;
  return { ...node, if: { type: 'null' }, else: branches };
}

function typeOf(schema: Schema): JsonSchema {
  const types =
    schema.type !== undefined
      ? [schema.type]
      : schema['x-kubernetes-int-or-string'] === true
        ? ['integer', 'string']
        : [];
  if (types.length === 0) return {};
  // The API server accepts a list for a string with a format, because bytes are a list in Go.
  const bytes = schema.type === 'string' && checkedFormat(schema) !== undefined ? ['array'] : [];
  return { type: [...types, ...(schema.nullable === true ? ['null'] : []), ...bytes] };
}

const falseOnly = (value: Schema | boolean | undefined) => (value === false ? false : undefined);

const defined = <K extends keyof JsonSchema>(key: K, value: JsonSchema[K] | undefined): JsonSchema =>
  value === undefined ? {} : withDoubles({ [key]: value });

/** Ajv accepts no bigint, which a CRD with a large bound holds; the API server reads bounds as doubles. */
const withDoubles = (keywords: JsonSchema): JsonSchema =>
  mapValues(keywords as Readonly<Record<string, unknown>>, (value) =>
    typeof value === 'bigint' ? Number(value) : value,
  );

const mapValues = <A, B>(object: Readonly<Record<string, A>>, change: (value: A) => B): Record<string, B> =>
  Object.fromEntries(Object.entries(object).map(([key, value]) => [key, change(value)]));
