/** The schema of the argument of `defineHandler`. Each `problem` says what a field has to be. */
import Type, { type TSchema } from 'typebox';
import { Check } from 'typebox/schema';

import { isJsonObject, ownValue } from '../json/json.ts';
import { quote } from '../json/printable.ts';

const LABEL = '[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?';
const ONE_LABEL = { pattern: `^${LABEL}$` };
const label = Type.String(ONE_LABEL);
const texts = (wanted: string) =>
  Type.Array(Type.String(), { minItems: 1, problem: `: write a list of ${wanted}` });
const oneOf = (...values: readonly string[]) => Type.Unsafe<string>({ type: 'string', enum: [...values] });
const optional = Type.Optional;
const unchecked = optional(Type.Unknown());
const aFunction = (options: { readonly problem?: string } = {}) =>
  Type.Refine(Type.Unknown(options), (value) => typeof value === 'function');
const action = optional(aFunction({ problem: ' is not a function' }));

const OPERATIONS = ['CREATE', 'UPDATE', 'DELETE', 'CONNECT'];

const match = Type.Object(
  {
    apiGroups: texts('API groups, with "" for the core group'),
    apiVersions: optional(texts('API versions such as v1')),
    resources: texts('plurals such as servers'),
    operations: optional(
      Type.Array(oneOf(...OPERATIONS), {
        minItems: 1,
        problem: `: write a list of ${OPERATIONS.join(', ')}`,
      }),
    ),
    namespaceSelector: unchecked,
    objectSelector: unchecked,
    matchConditions: optional(
      Type.Array(Type.Object({ name: Type.String(), expression: Type.String() }), {
        problem: ': write a list of objects with name and expression',
      }),
    ),
  },
  { additionalProperties: false, problem: ': write an object with apiGroups and resources' },
);

const readable = Type.Union([
  Type.String({ pattern: `^${LABEL}(\\.${LABEL})*$` }),
  Type.Object({
    apiGroup: optional(Type.String()),
    apiVersion: optional(Type.String()),
    resource: label,
    metadataOnly: optional(Type.Boolean()),
  }),
]);

const convert = Type.Object(
  {
    hub: Type.String({ ...ONE_LABEL, problem: ': write a version such as v2' }),
    versions: Type.Record(Type.String(), Type.Unknown(), {
      minProperties: 1,
      problem: ': write an object with toHub and fromHub for each other version',
    }),
  },
  { problem: ': write an object with hub and versions' },
);

/** One version of `convert.versions`. */
const conversion = Type.Object({ toHub: aFunction(), fromHub: aFunction() });

/** `handler-` and the name form a label of the webhook's name, which has at most 63 characters. */
const LONGEST_NAME = 40;

const name = Type.String({
  ...ONE_LABEL,
  maxLength: LONGEST_NAME,
  problem: ` is not a DNS label of at most ${LONGEST_NAME} characters, such as server-racks`,
  showsValue: true,
});

export const isHandlerName = (text: string): boolean => Check(name, text);

const handlerDefinition = Type.Object(
  {
    name: optional(name),
    match,
    failurePolicy: optional(oneOf('Fail', 'Ignore')),
    timeoutSeconds: optional(
      Type.Integer({ minimum: 1, maximum: 30, problem: ': write a whole number of seconds, 1 to 30' }),
    ),
    onError: optional(oneOf('deny', 'allow')),
    reads: optional(
      Type.Array(readable, { problem: ': write a list of kinds such as "datacenters.infra.example.com"' }),
    ),
    mutate: action,
    validate: action,
    convert: optional(convert),
  },
  {
    additionalProperties: false,
    problem: 'write an object with match, and with mutate, validate or convert',
  },
);

export type HandlerField = keyof typeof handlerDefinition.properties;
export type HandlerMatchField = keyof typeof match.properties;

/** All problems of a definition, by field. Checks at runtime: authors may write JavaScript, without types. */
export function definitionProblems(definition: unknown): readonly string[] {
  const problems = fieldProblems(handlerDefinition, definition, '');
  if (!isJsonObject(definition)) return problems;
  const { mutate, validate, convert: conversions } = definition;
  if ([mutate, validate, conversions].every((part) => part === undefined))
    return [...problems, 'it has neither mutate, validate nor convert'];
  return [...problems, ...(Check(convert, conversions) ? versionProblems(conversions) : [])];
}

function fieldProblems(schema: TSchema, value: unknown, path: string): readonly string[] {
  if (!Type.IsObject(schema) || !isJsonObject(value))
    return Check(schema, value) ? [] : [problemOf(schema, value, path)];
  const below = (key: string) => (path === '' ? key : `${path}.${key}`);
  const known = Object.keys(schema.properties);
  const unknown = Object.keys(value).filter((key) => !known.includes(key));
  const isClosed = ownValue(schema, 'additionalProperties') === false;
  return [
    ...(isClosed ? unknown : []).map((key) => `${below(key)} is unknown; there are ${known.join(', ')}`),
    ...Object.entries(schema.properties).flatMap(([key, field]) =>
      value[key] === undefined && !schema.required.includes(key)
        ? []
        : fieldProblems(field, value[key], below(key)),
    ),
  ];
}

function problemOf(schema: TSchema, value: unknown, path: string): string {
  const {
    problem,
    showsValue,
    enum: values,
  }: { problem?: string; showsValue?: boolean; enum?: string[] } = schema;
  if (values !== undefined) return `${path}: ${quote(value)} is not one of ${values.join(', ')}`;
  return `${path}${showsValue === true ? ` ${quote(value)}` : ''}${problem ?? ''}`;
}

function versionProblems({ hub, versions }: { readonly hub: string; readonly versions: object }) {
  return Object.entries(versions).flatMap(([version, given]) => {
    const path = `convert.versions.${version}`;
    if (version === hub) return [`${path}: it is the hub, which needs no conversion`];
    return Check(label, version) && Check(conversion, given)
      ? []
      : [`${path}: write a version with functions toHub and fromHub`];
  });
}
