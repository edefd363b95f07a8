/** What the schemas of `defineHandler` and `defineController` share. Each `problem` says what a field has to be. */
import Type, { type TSchema } from 'typebox';
import { Check } from 'typebox/schema';

import { isJsonObject, ownValue } from '../json/json.ts';
import { quote } from '../json/printable.ts';

const LABEL = '[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?';
export const ONE_LABEL = { pattern: `^${LABEL}$` };
export const label = Type.String(ONE_LABEL);
export const texts = (wanted: string, item = Type.String()) =>
  Type.Array(item, { minItems: 1, problem: `: write a list of ${wanted}` });
export const oneOf = (...values: readonly string[]) =>
  Type.Unsafe<string>({ type: 'string', enum: [...values] });
export const optional = Type.Optional;
export const unchecked = optional(Type.Unknown());
export const aFunction = (options: { readonly problem?: string } = {}) =>
  Type.Refine(Type.Unknown(options), (value) => typeof value === 'function');
export const action = optional(aFunction({ problem: ' is not a function' }));

export const readable = Type.Union([
  Type.String({ pattern: `^${LABEL}(\\.${LABEL})*$` }),
  Type.Object({
    apiGroup: optional(Type.String()),
    apiVersion: optional(Type.String()),
    resource: label,
    metadataOnly: optional(Type.Boolean()),
  }),
]);

/** `handler-` and the name form a label of the webhook's name, which has at most 63 characters. */
const LONGEST_NAME = 40;

export const name = Type.String({
  ...ONE_LABEL,
  maxLength: LONGEST_NAME,
  problem: ` is not a DNS label of at most ${LONGEST_NAME} characters, such as server-racks`,
  showsValue: true,
});

export const isName = (text: string): boolean => Check(name, text);

export function fieldProblems(schema: TSchema, value: unknown, path: string): readonly string[] {
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
