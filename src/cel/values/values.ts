/** Marks CEL values without a JavaScript type. User JSON can't contain symbol keys. */
export const CEL_TYPE: unique symbol = Symbol('CEL type');

export interface CelUint {
  readonly [CEL_TYPE]: 'uint';
  readonly value: bigint;
}

export interface CelTimestamp {
  readonly [CEL_TYPE]: 'google.protobuf.Timestamp';
  readonly nanos: bigint;
  /** The offset from UTC as written, in minutes, for `string`; undefined: UTC. */
  readonly offset?: number | undefined;
}

export interface CelDuration {
  readonly [CEL_TYPE]: 'google.protobuf.Duration';
  readonly nanos: bigint;
}

/** `value` is undefined if the optional is empty. */
export interface CelOptional {
  readonly [CEL_TYPE]: 'optional_type';
  readonly value: unknown;
}

export interface CelTypeValue {
  readonly [CEL_TYPE]: 'type';
  readonly name: string;
}

/** A value of a library type. The file of the library declares its other fields. */
export interface CelOpaque {
  readonly [CEL_TYPE]: string;
  /** Values of one type are equal if their identities are. */
  readonly identity: string | bigint;
}

/** A map that an expression created, or an unchanged JSON object whose values are converted on access. */
export type CelMap = ReadonlyMap<unknown, unknown> | object;
export type CelList = readonly unknown[];

export const uint = (value: bigint): CelUint => ({ [CEL_TYPE]: 'uint', value });
export const timestamp = (nanos: bigint, offset?: number): CelTimestamp => ({
  [CEL_TYPE]: 'google.protobuf.Timestamp',
  nanos,
  offset,
});
export const duration = (nanos: bigint): CelDuration => ({ [CEL_TYPE]: 'google.protobuf.Duration', nanos });
export const optional = (value: unknown): CelOptional => ({ [CEL_TYPE]: 'optional_type', value });
export const NONE = optional(undefined);
export const typeValue = (name: string): CelTypeValue => ({ [CEL_TYPE]: 'type', name });

export const MOST_INT = 2n ** 63n - 1n;
export const LEAST_INT = -(2n ** 63n);
export const MOST_UINT = 2n ** 64n - 1n;

export const isInt64 = (value: bigint): boolean => value <= MOST_INT && value >= LEAST_INT;

const messageNames = new WeakMap<object, string>();

export function messageValue(name: string, fields: readonly (readonly [string, unknown])[]): CelMap {
  const map = new Map<unknown, unknown>(fields);
  messageNames.set(map, name);
  return map;
}

export const messageNameOf = (value: unknown): string | undefined =>
  typeof value === 'object' && value !== null ? messageNames.get(value) : undefined;

export type Tagged = CelUint | CelTimestamp | CelDuration | CelOptional | CelTypeValue | CelOpaque;

export const isTagged = (value: unknown): value is Tagged =>
  typeof value === 'object' && value !== null && CEL_TYPE in value;

export const isUint = (value: unknown): value is CelUint => isTagged(value) && value[CEL_TYPE] === 'uint';
export const isTimestamp = (value: unknown): value is CelTimestamp =>
  isTagged(value) && value[CEL_TYPE] === 'google.protobuf.Timestamp';
export const isDuration = (value: unknown): value is CelDuration =>
  isTagged(value) && value[CEL_TYPE] === 'google.protobuf.Duration';
export const isOptional = (value: unknown): value is CelOptional =>
  isTagged(value) && value[CEL_TYPE] === 'optional_type';
/** A value of a Kubernetes library: a quantity, a URL, … */
export const isOpaque = (value: unknown): value is CelOpaque => isTagged(value) && 'identity' in value;

export const isTypeValue = (value: unknown): value is CelTypeValue =>
  isTagged(value) && value[CEL_TYPE] === 'type';
export const isList = (value: unknown): value is CelList => Array.isArray(value);
export const isMap = (value: unknown): value is CelMap =>
  typeof value === 'object' &&
  value !== null &&
  (value instanceof Map || !(Array.isArray(value) || CEL_TYPE in value || value instanceof Uint8Array));
export const isNumber = (value: unknown): value is bigint | number | CelUint =>
  typeof value === 'bigint' || typeof value === 'number' || isUint(value);

const PRIMITIVES: Readonly<Record<string, string>> = {
  string: 'string',
  bigint: 'int',
  number: 'double',
  boolean: 'bool',
};

export function typeNameOf(value: unknown): string {
  if (value === null) return 'null_type';
  if (typeof value !== 'object') return PRIMITIVES[typeof value] ?? typeof value;
  if (Array.isArray(value)) return 'list';
  if (value instanceof Uint8Array) return 'bytes';
  return isTagged(value) ? value[CEL_TYPE] : (messageNames.get(value) ?? 'map');
}
