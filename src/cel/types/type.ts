import {
  CEL_TYPE,
  isDuration,
  isList,
  isMap,
  isOptional,
  isTagged,
  isTimestamp,
  isTypeValue,
} from '../values/values.ts';

export type CelType =
  | { readonly kind: 'dyn'; readonly isNumber?: true }
  | { readonly kind: 'named'; readonly name: string }
  | { readonly kind: 'list' | 'map' | 'optional' | 'type'; readonly parameters: readonly CelType[] }
  | { readonly kind: 'variable'; readonly name: string }
  | ObjectType;

/** An object with known fields, from a schema. During evaluation it is an ordinary map. */
export interface ObjectType {
  readonly kind: 'object';
  /** For messages, e.g. `Object.spec`. */
  readonly name: string;
  /** Keyed by the name in expressions, which can differ from the property name. */
  readonly fields: ReadonlyMap<string, ObjectField>;
  /** Whether it may have fields outside the schema. Their type is dyn. */
  readonly open: boolean;
  /** Whether the type checker does not treat it as a map, so that functions for maps do not accept it. */
  readonly sealed?: true;
}

export interface ObjectField {
  readonly property: string;
  readonly type: CelType;
}

export const DYN: CelType = { kind: 'dyn' };
/** Of the schema's type `number`: JSON does not distinguish 3 from 3.0. */
export const NUMBER: CelType = { kind: 'dyn', isNumber: true };

/** The types within the type that are known only during evaluation. */
export function dynamicIn(type: CelType): readonly Extract<CelType, { kind: 'dyn' }>[] {
  if (type.kind === 'dyn') return [type];
  return 'parameters' in type ? type.parameters.flatMap(dynamicIn) : [];
}

const named = (name: string): CelType => ({ kind: 'named', name });
export const BOOL = named('bool');
export const INT = named('int');
const UINT = named('uint');
export const DOUBLE = named('double');
export const STRING = named('string');
const BYTES = named('bytes');
const NULL = named('null');
export const TIMESTAMP = named('timestamp');
const DURATION = named('duration');

export const listOf = (element: CelType): CelType => ({ kind: 'list', parameters: [element] });
export const mapOf = (key: CelType, value: CelType): CelType => ({ kind: 'map', parameters: [key, value] });
export const optionalOf = (value: CelType): CelType => ({ kind: 'optional', parameters: [value] });
export const typeOf = (type: CelType): CelType => ({ kind: 'type', parameters: [type] });

export const parameter = (type: CelType, index = 0): CelType =>
  ('parameters' in type ? type.parameters[index] : undefined) ?? DYN;

/** Replaces free variables by dyn: a variable belongs to one expression. */
export function grounded(type: CelType): CelType {
  if (type.kind === 'variable') return DYN;
  return 'parameters' in type ? { ...type, parameters: type.parameters.map(grounded) } : type;
}

const PARAMETERISED = { list: 'list', map: 'map', optional: 'optional_type', type: 'type' } as const;

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

const PLAIN = [DYN, BOOL, INT, UINT, DOUBLE, STRING, BYTES, NULL, TIMESTAMP, DURATION];

const NAMED: ReadonlyMap<string, CelType> = new Map<string, CelType>([
  ...PLAIN.map((type) => [showType(type), type] as const),
  ['null_type', NULL],
  ['google.protobuf.Timestamp', TIMESTAMP],
  ['google.protobuf.Duration', DURATION],
  ['list', listOf(DYN)],
  ['map', mapOf(DYN, DYN)],
  ['type', typeOf(DYN)],
]);

/** The types of the Kubernetes libraries, by a short name for signatures. */
const KUBERNETES = new Map(
  Object.entries({
    quantity: 'kubernetes.Quantity',
    url: 'kubernetes.URL',
    ip: 'net.IP',
    cidr: 'net.CIDR',
    semver: 'kubernetes.Semver',
    format: 'kubernetes.NamedFormat',
    authorizer: 'kubernetes.authorization.Authorizer',
    pathCheck: 'kubernetes.authorization.PathCheck',
    groupCheck: 'kubernetes.authorization.GroupCheck',
    resourceCheck: 'kubernetes.authorization.ResourceCheck',
    decision: 'kubernetes.authorization.Decision',
  }),
);

/** Types that expressions can name, as in `type(x) == int`. */
export const nameableTypes: ReadonlyMap<string, CelType> = new Map<string, CelType>([
  ...[...NAMED].filter(([name]) => !['null', 'timestamp', 'duration', 'dyn'].includes(name)),
  ...[...KUBERNETES.values()].map((name) => [name, named(name)] as const),
]);

const PARAMETERS = /^(list|map|optional|optional_type|type)[<(](.+)[>)]$/;
const VARIABLE = /^[A-Z]$/;

/** Parses e.g. `list<int>`, `map<string, dyn>` or `list(int)`. @throws Error if the type does not exist */
export function parseType(text: string): CelType {
  const name = text.trim();
  const known = NAMED.get(name) ?? nameableTypes.get(KUBERNETES.get(name) ?? name);
  if (known !== undefined) return known;
  if (VARIABLE.test(name)) return { kind: 'variable', name };
  const [, kind, inner = ''] = PARAMETERS.exec(name) ?? [];
  const [first, second] = splitTopLevel(inner).map(parseType);
  if (first !== undefined) {
    if (kind === 'map' && second !== undefined) return mapOf(first, second);
    if (kind === 'list' && second === undefined) return listOf(first);
    if (kind === 'type' && second === undefined) return typeOf(first);
    if (kind !== 'map' && second === undefined) return optionalOf(first);
  }
  throw new Error(`CEL type "${name}" not found`);
}

export function splitTopLevel(text: string): readonly string[] {
  if (text.trim() === '') return [];
  const parts: string[] = [];
  let depth = 0;
  let start = 0;
  for (const [index, character] of text.split('').entries()) {
    if ('<('.includes(character)) depth += 1;
    else if ('>)'.includes(character)) depth -= 1;
    else if (character === ',' && depth === 0) {
      parts.push(text.slice(start, index));
      start = index + 1;
    }
  }
  return [...parts, text.slice(start)].map((part) => part.trim());
}

export type ValueTest = (value: unknown) => boolean;

const TESTS: ReadonlyMap<string, ValueTest> = new Map<string, ValueTest>([
  ['bool', (value) => typeof value === 'boolean'],
  ['int', (value) => typeof value === 'bigint'],
  ['double', (value) => typeof value === 'number'],
  ['string', (value) => typeof value === 'string'],
  ['bytes', (value) => value instanceof Uint8Array],
  ['null', (value) => value === null],
  ['timestamp', isTimestamp],
  ['duration', isDuration],
]);

function listTest(element: CelType): ValueTest {
  if (element.kind === 'dyn' || element.kind === 'variable') return isList;
  const isElement = valueTest(element);
  return (value) => isList(value) && (value.length === 0 || isElement(value[0]));
}

/** Whether a value has the type at evaluation. Inspects only the first element of a list, as the API server does. */
export function valueTest(type: CelType): ValueTest {
  switch (type.kind) {
    case 'dyn':
    case 'variable':
      return () => true;
    case 'named':
      return TESTS.get(type.name) ?? ((value) => isTagged(value) && value[CEL_TYPE] === type.name);
    case 'list':
      return listTest(parameter(type));
    case 'map':
    case 'object':
      return isMap;
    case 'optional':
      return isOptional;
    case 'type':
      return isTypeValue;
  }
}
