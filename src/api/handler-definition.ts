/** The schema of the argument of `defineHandler`. Each `problem` says what a field has to be. */
import Type from 'typebox';
import { Check } from 'typebox/schema';

import { isJsonObject } from '../json/json.ts';
import {
  action,
  aFunction,
  fieldProblems,
  label,
  name,
  ONE_LABEL,
  oneOf,
  optional,
  readable,
  texts,
  unchecked,
} from './definition.ts';

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

const conversion = Type.Object({ toHub: aFunction(), fromHub: aFunction() });

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

function versionProblems({ hub, versions }: { readonly hub: string; readonly versions: object }) {
  return Object.entries(versions).flatMap(([version, given]) => {
    const path = `convert.versions.${version}`;
    if (version === hub) return [`${path}: ${version} is the hub; list only the other versions`];
    return Check(label, version) && Check(conversion, given)
      ? []
      : [`${path}: write a version with functions toHub and fromHub`];
  });
}
