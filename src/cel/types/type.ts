/** The static type of an expression. */
export type CelType = NamedType | ParameterisedType | TypeVariable | ObjectType | { readonly kind: 'dyn' };

/** A type without parameters: `int`, `string`, `kubernetes.Quantity`, … */
export interface NamedType {
  readonly kind: 'named';
  readonly name: string;
}

export interface ParameterisedType {
  readonly kind: 'list' | 'map' | 'optional' | 'type';
  readonly parameters: readonly CelType[];
}

export interface TypeVariable {
  readonly kind: 'variable';
  readonly name: string;
}

/** An object with known fields, from a schema. During evaluation it is an ordinary map. */
export interface ObjectType {
  readonly kind: 'object';
  /** For messages, e.g. `Object.spec`. */
  readonly name: string;
  /** Keyed by the name in expressions, which can differ from the property name. */
  readonly fields: ReadonlyMap<string, ObjectField>;
  /** Whether it may have fields outside the schema. Their type is dyn. */
  readonly open: boolean;
  /** Whether it is no map for the type checker, so that functions of maps do not take it. */
  readonly sealed?: true;
}

export interface ObjectField {
  readonly property: string;
  readonly type: CelType;
}

export const DYN: CelType = { kind: 'dyn' };

const named = (name: string): CelType => ({ kind: 'named', name });
export const BOOL = named('bool');
export const INT = named('int');
export const UINT = named('uint');
export const DOUBLE = named('double');
export const STRING = named('string');
export const BYTES = named('bytes');
export const NULL = named('null');
export const TIMESTAMP = named('timestamp');
export const DURATION = named('duration');

export const listOf = (element: CelType): CelType => ({ kind: 'list', parameters: [element] });
export const mapOf = (key: CelType, value: CelType): CelType => ({ kind: 'map', parameters: [key, value] });
export const optionalOf = (value: CelType): CelType => ({ kind: 'optional', parameters: [value] });
export const typeOf = (type: CelType): CelType => ({ kind: 'type', parameters: [type] });

/** The n-th type parameter: a list has the element type, a map the key and value types, an optional the value type. */
export const parameter = (type: CelType, index = 0): CelType =>
  ('parameters' in type ? type.parameters[index] : undefined) ?? DYN;

/** Replaces free variables by dyn: a variable belongs to one expression. */
export function grounded(type: CelType): CelType {
  if (type.kind === 'variable') return DYN;
  return 'parameters' in type ? { ...type, parameters: type.parameters.map(grounded) } : type;
}

const PARAMETERISED = { list: 'list', map: 'map', optional: 'optional_type', type: 'type' } as const;

/** Formats a type as the API server does: `map(string, int)`. Unknown types are `dyn`. */
export function showType(type: CelType): string {
  switch (type.kind) {
    case 'dyn':
    case 'variable':
      return 'dyn';
    case 'named':
    case 'object':
      return type.name;
    case 'list':
    case 'map':
    case 'optional':
    case 'type':
      return `${PARAMETERISED[type.kind]}(${type.parameters.map(showType).join(', ')})`;
  }
}
