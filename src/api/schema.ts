/**
 * TypeBox for CustomResourceDefinitions: one definition gives the TypeScript type and the schema that the API server enforces.
 * Fields of list items must not have a default, because kubectl would report an unchanged file as configured.
 */
import type { KubeObject, ObjectMeta } from '../json/kube-object.ts';
import Type, { type Static, type TObject, type TOptional, type TSchema } from 'typebox';

export type Immutable<T> = T extends (infer Item)[]
  ? readonly Immutable<Item>[]
  : T extends object
    ? { readonly [Key in keyof T]: Immutable<T[Key]> }
    : T;

export type TypeOf<Schema extends TSchema> = Immutable<Static<Schema>>;

/** An object as the API server stores it; `Schema` has no `apiVersion`, `kind` and `metadata`. */
export type KubeObjectOf<Schema extends TSchema> = KubeObject & {
  readonly metadata: ObjectMeta;
} & TypeOf<Schema>;

interface TextOptions {
  readonly minLength?: number;
  readonly maxLength?: number;
  readonly pattern?: string;
  readonly format?: 'date-time';
  readonly default?: string;
}

export const string = (description: string, options: TextOptions = {}) =>
  Type.String({ description, ...options });

export const boolean = (description: string, options: { readonly default?: boolean } = {}) =>
  Type.Boolean({ description, ...options });

interface NumberOptions {
  readonly minimum?: number;
  readonly maximum?: number;
  readonly default?: number;
  readonly format?: 'int32' | 'int64';
}

export const integer = (description: string, options: NumberOptions = {}) =>
  Type.Integer({ format: 'int32', description, ...options });

type Fields = Readonly<Record<string, TSchema>>;
/** The name of an optional field ends in `?`. */
type PropertiesOf<Given extends Fields> = {
  [Key in keyof Given as Key extends `${infer Name}?` ? Name : Key]: Key extends `${string}?`
    ? TOptional<Given[Key]>
    : Given[Key];
};

export interface ValidationRule {
  readonly rule: string;
  /** The field that a violation names, relative to the object that has the rule. */
  readonly fieldPath: string;
  readonly message: string;
}

interface ObjectOptions {
  readonly 'x-kubernetes-validations'?: readonly ValidationRule[];
  readonly minProperties?: number;
  readonly maxProperties?: number;
  readonly default?: object;
}

export function object<const Given extends Fields>(
  description: string,
  fields: Given,
  options: ObjectOptions = {},
): TObject<PropertiesOf<Given>> {
  const properties = Object.entries(fields).map(([name, schema]) =>
    name.endsWith('?') ? [name.slice(0, -1), Type.Optional(schema)] : [name, schema],
  );
  return Type.Object(Object.fromEntries(properties) as PropertiesOf<Given>, { description, ...options });
}

interface ListOptions {
  readonly minItems?: number;
  readonly maxItems?: number;
  readonly default?: readonly unknown[];
}

export const array = <Item extends TSchema>(description: string, items: Item, options: ListOptions = {}) =>
  Type.Array(items, { description, ...options });

/** A list in which `key` identifies an entry, so that server-side apply merges it entry by entry. */
export const mapList = <Item extends TSchema>(
  description: string,
  key: string,
  items: Item,
  options: Pick<ListOptions, 'maxItems'> = {},
) =>
  Type.Array(items, {
    description,
    ...options,
    'x-kubernetes-list-type': 'map',
    'x-kubernetes-list-map-keys': [key],
  });

export const oneOf = <const Values extends readonly string[]>(
  description: string,
  values: Values,
  options: { readonly default?: Values[number] } = {},
) => Type.Unsafe<Values[number]>({ type: 'string', enum: [...values], description, ...options });

export const textMap = (description: string, options: { readonly maxProperties?: number } = {}) =>
  Type.Unsafe<Record<string, string>>({
    type: 'object',
    additionalProperties: { type: 'string' },
    description,
    ...options,
  });

export const countMap = (description: string) =>
  Type.Unsafe<Record<string, number>>({
    type: 'object',
    additionalProperties: { type: 'integer', format: 'int64' },
    description,
  });

export const anything = (description: string) =>
  Type.Unsafe<unknown>({ 'x-kubernetes-preserve-unknown-fields': true, description });

export const anyObject = <T extends object>(description: string) =>
  Type.Unsafe<T>({ type: 'object', 'x-kubernetes-preserve-unknown-fields': true, description });

/** A DNS label. */
export const LABEL = { minLength: 1, maxLength: 63, pattern: '^[a-z0-9]([-a-z0-9]*[a-z0-9])?$' } as const;

export const FIELD_PATH =
  'A path such as `spec.datacenter`, `spec.disks[*].class` or `metadata.labels["example.com/rack"]`.';
