/** What the checker knows of an expression before it runs. */
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

/** An object whose fields are known, because there is a schema. At evaluation it is a map like any other. */
export interface ObjectType {
  readonly kind: 'object';
  /** For messages, e.g. `Object.spec`. */
  readonly name: string;
  /** By the name that expressions call them, which is not always the name of the property. */
  readonly fields: ReadonlyMap<string, ObjectField>;
  /** Whether it may have fields that the schema does not name; their type is dyn. */
  readonly open: boolean;
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

/** The type's n-th parameter: of a list its elements, of a map its keys and values, of an optional its value. */
export const parameter = (type: CelType, index = 0): CelType =>
  ('parameters' in type ? type.parameters[index] : undefined) ?? DYN;

const PARAMETERISED = { list: 'list', map: 'map', optional: 'optional_type', type: 'type' } as const;

/** As the API server writes types in its messages: `map(string, int)`. What is not known is `dyn`. */
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
