/**
 * TypeBox in the dialect of CustomResourceDefinitions (structural OpenAPI v3): one definition gives the TypeScript type and the
 * schema that the API server enforces, so the two cannot disagree.
 *
 * Fields of list items have no default here, but say what absent means: a list is one value to `kubectl apply`, which would take a
 * default inside it for a difference, and report an unchanged file as configured each time.
 */
import Type, { type Static, type TProperties, type TSchema } from 'typebox';

/** A value as others hand it to us: never to be changed in place. */
export type Immutable<T> = T extends (infer Item)[]
  ? readonly Immutable<Item>[]
  : T extends object
    ? { readonly [Key in keyof T]: Immutable<T[Key]> }
    : T;

export type TypeOf<Schema extends TSchema> = Immutable<Static<Schema>>;

export const optional = Type.Optional;
export const boolean = Type.Boolean;

export const string = (options: {
  readonly description: string;
  readonly minLength?: number;
  readonly maxLength?: number;
  readonly pattern?: string;
  readonly format?: 'date-time';
  readonly default?: string;
}) => Type.String(options);

/**
 * The name of an API group, which is empty for the core group. Null is let in and means the same: API servers older than 1.21
 * that were built with Go 1.16 or later take an empty text for null, and would refuse it (kubernetes #99804).
 */
export const apiGroup = (options: { readonly description: string }) =>
  Type.Unsafe<string | null>({ type: 'string', nullable: true, ...options });

export const integer = (options: {
  readonly description: string;
  readonly minimum?: number;
  readonly maximum?: number;
  readonly default?: number;
  readonly format?: 'int32' | 'int64';
}) => Type.Integer({ format: 'int32', ...options });

export const object = <Properties extends TProperties>(
  properties: Properties,
  options: {
    readonly description: string;
    readonly default?: unknown;
    readonly minProperties?: number;
    readonly maxProperties?: number;
  },
) => Type.Object(properties, options);

export const array = <Item extends TSchema>(
  items: Item,
  options: {
    readonly description: string;
    readonly minItems?: number;
    readonly maxItems?: number;
    readonly default?: readonly unknown[];
  },
) => Type.Array(items, options);

/** A list in which `keys` name an entry, so that server-side apply merges it entry by entry. */
export const mapList = <Item extends TSchema>(
  items: Item,
  keys: readonly string[],
  options: { readonly description: string; readonly maxItems?: number },
) => Type.Array(items, { ...options, 'x-kubernetes-list-type': 'map', 'x-kubernetes-list-map-keys': keys });

export const oneOf = <const Values extends readonly string[]>(
  values: Values,
  options: { readonly description: string; readonly default?: Values[number] },
) => Type.Unsafe<Values[number]>({ type: 'string', enum: [...values], ...options });

/** Texts by free keys. */
export const textMap = (options: { readonly description: string; readonly maxProperties?: number }) =>
  Type.Unsafe<Record<string, string>>({
    type: 'object',
    additionalProperties: { type: 'string' },
    ...options,
  });

/** Numbers by free keys. */
export const countMap = (options: { readonly description: string; readonly maxProperties?: number }) =>
  Type.Unsafe<Record<string, number>>({
    type: 'object',
    additionalProperties: { type: 'integer', format: 'int64' },
    ...options,
  });

/** Any JSON value, kept as it is. */
export const anything = (options: { readonly description: string }) =>
  Type.Unsafe<unknown>({ 'x-kubernetes-preserve-unknown-fields': true, ...options });

/** An object with any fields, all of which are preserved. */
export const anyObject = <T extends object>(options: { readonly description: string }) =>
  Type.Unsafe<T>({ type: 'object', 'x-kubernetes-preserve-unknown-fields': true, ...options });
