import type { Compiled, Compiler, Scope, Variable } from './compiler.ts';
import { CelError } from '../cel-error.ts';
import type { Call, Expression, Select } from '../syntax/expression.ts';
import {
  charge,
  count,
  type Frame,
  isList,
  isMap,
  isOptional,
  isUint,
  mapGet,
  mapKeys,
  NONE,
  optional,
  spend,
  type Step,
  typeNameOf,
  typeValue,
} from '../values/values.ts';
import {
  BOOL,
  type CelType,
  DYN,
  nameableTypes,
  type ObjectField,
  type ObjectType,
  optionalOf,
  parameter,
  showType,
  typeOf,
} from '../types/type.ts';
import { declare } from '../library/define.ts';
import { propertyName } from '../types/schema-type.ts';
import { resolveOverloads } from './overloads.ts';

function read(value: unknown, key: unknown): unknown {
  if (isOptional(value)) return lookUp(value, key);
  const found = find(value, key);
  if (found !== undefined) return found;
  throw new CelError(isList(value) ? `index out of bounds: ${showKey(key)}` : `no such key: ${showKey(key)}`);
}

function lookUp(value: unknown, key: unknown): unknown {
  if (isOptional(value)) return value.value === undefined ? NONE : lookUp(value.value, key);
  if (!isQualifier(key)) throw new CelError(`invalid qualifier type: ${typeNameOf(key)}`);
  const found = find(value, key);
  return found === undefined ? NONE : optional(found);
}

/** cel-go selects with these types only. */
const isQualifier = (key: unknown): boolean =>
  typeof key === 'string' ||
  typeof key === 'bigint' ||
  typeof key === 'number' ||
  typeof key === 'boolean' ||
  isUint(key);

function hasField(value: unknown, field: string): boolean {
  if (isOptional(value)) return value.value !== undefined && hasField(value.value, field);
  return find(value, field) !== undefined;
}

function find(value: unknown, key: unknown): unknown {
  if (isMap(value)) return mapGet(value, key);
  return isList(value) ? value[indexOf(key)] : undefined;
}

function indexOf(key: unknown): number {
  const index = isUint(key) ? key.value : key;
  if (typeof index === 'bigint') return Number(index);
  if (typeof index !== 'number') throw new CelError(`unsupported index type '${typeNameOf(key)}' in list`);
  if (!Number.isInteger(index)) throw new CelError(`unsupported index value ${index} in list`);
  return index;
}

const showKey = (key: unknown): string =>
  isQualifier(key) ? String(isUint(key) ? key.value : key) : typeNameOf(key);

export function qualifiedName(expression: Expression): string | undefined {
  if (expression.kind === 'identifier') return expression.name;
  if (expression.kind !== 'select' || expression.mode !== 'read') return undefined;
  const operand = qualifiedName(expression.operand);
  return operand === undefined ? undefined : `${operand}.${expression.field}`;
}

export function compileTypeName(name: string): Compiled | undefined {
  const type = nameableTypes.get(name);
  if (type === undefined) return undefined;
  const value = typeValue(name);
  // Only `type` itself is a type without a parameter.
  return { type: typeOf(name === 'type' ? { kind: 'named', name } : type), step: () => value };
}

export function compileVariable(name: string, { type, slot }: Variable): Compiled {
  return {
    type,
    isPath: true,
    step: (frame) => {
      spend(frame, 1);
      const value = frame.slots[slot];
      if (value === undefined) throw new CelError(`no such attribute(s): ${name}`);
      return value;
    },
  };
}

export function compileSelect(select: Select, scope: Scope, compiler: Compiler): Compiled {
  const name = qualifiedName(select);
  const typeName = name === undefined ? undefined : compileTypeName(name);
  if (typeName !== undefined) return typeName;
  const variable = name === undefined ? undefined : scope.variables.get(name);
  if (name !== undefined && variable !== undefined) return compileVariable(name, variable);
  const operand = compiler.compile(select.operand, scope);
  const container = compiler.solver.resolve(operand.type);
  if (scope.unconverted) refuseEscaped(container, select, compiler);
  const { type, property } = fieldOf(container, select, compiler);
  return { type, isPath: true, step: selectStep(operand, property, select.mode, type) };
}

function fieldOf(operand: CelType, select: Select, compiler: Compiler): ObjectField {
  const { field, mode, at } = select;
  const viral = operand.kind === 'optional';
  const container = viral ? parameter(operand) : operand;
  const found = fieldIn(container, field);
  if (found === undefined) throw noSuchField(container, field, at, compiler);
  if (mode === 'test') return { ...found, type: BOOL };
  return viral || mode === 'optional' ? { ...found, type: optionalOf(found.type) } : found;
}

/** A field whose name merely looks escaped is not refused if the type declares it. */
function refuseEscaped(container: CelType, { field, mode, operand, at }: Select, { fail }: Compiler): void {
  const property = propertyName(field);
  const declared = container.kind === 'object' ? container.fields.get(field)?.property : undefined;
  if (property === field || declared === field) return;
  const [key, of] = [JSON.stringify(property), qualifiedName(operand) ?? '…'];
  const written = { read: `${of}[${key}]`, optional: `${of}[?${key}]`, test: `${key} in ${of}` }[mode];
  throw fail(`field ${field} is escaped, which only rules of CRDs can do: write ${written}`, at);
}

function fieldIn(container: CelType, field: string): ObjectField | undefined {
  if (container.kind === 'dyn' || container.kind === 'variable') return { property: field, type: DYN };
  if (container.kind === 'map') return { property: field, type: parameter(container, 1) };
  if (container.kind !== 'object') return undefined;
  return container.fields.get(field) ?? (container.open ? { property: field, type: DYN } : undefined);
}

function noSuchField(container: CelType, field: string, at: number, { fail }: Compiler): CelError {
  if (container.kind !== 'object')
    return fail(`type '${showType(container)}' does not support field selection`, at);
  const { name, fields } = container;
  const known = [...fields.keys()];
  const meant = nearest(field, known);
  const message = `undefined field '${field}' in ${name}${meant === undefined ? '' : `: did you mean '${meant}'?`}`;
  return fail(message, at, { kind: 'field', name: field, known, of: name });
}

/** What reading one field or element costs. A path that does not start with a variable costs 1 more. */
const costOfStep = ({ isPath = false }: Pick<Compiled, 'isPath'>): number => (isPath ? 1 : 2);

function selectStep(
  { step: operand, ...rest }: Omit<Compiled, 'type'>,
  property: string,
  mode: Select['mode'],
  type: CelType,
): Step {
  if (mode === 'test') {
    const cost = rest.isPath === true ? 0 : 1; // instead of the 1 of the variable
    return (frame) => {
      count(frame, cost);
      return hasField(operand(frame), property);
    };
  }
  const coerce = coercionTo(type);
  const cost = costOfStep(rest);
  const get = mode === 'optional' ? lookUpCounted : readCounted;
  return (frame) => coerce(get(frame, operand(frame), property, cost));
}

/** Reading from an empty optional costs nothing. */
function readCounted(frame: Frame, container: unknown, key: unknown, cost: number): unknown {
  charge(frame, cost);
  count(frame, cost - 1);
  let last = 1;
  try {
    const value = read(container, key);
    if (value === NONE) last = 0;
    return value;
  } finally {
    count(frame, last);
  }
}

/** An optional field or element costs 1 if it exists. */
function lookUpCounted(frame: Frame, container: unknown, key: unknown, cost: number): unknown {
  charge(frame, 1);
  count(frame, cost - 1);
  const value = lookUp(container, key);
  if (value !== NONE) count(frame, 1);
  return value;
}

const OVERLOADS = {
  '_[_]': [
    declare('_[_]', 'A', 'list<A>', 'int'),
    declare('_[_]', 'B', 'map<A, B>', 'A'),
    declare('_[_]', 'optional<A>', 'optional<list<A>>', 'int'),
    declare('_[_]', 'optional<B>', 'optional<map<A, B>>', 'A'),
  ],
  '_[?_]': [
    declare('_[?_]', 'optional<A>', 'list<A>', 'int'),
    declare('_[?_]', 'optional<B>', 'map<A, B>', 'A'),
    declare('_[?_]', 'optional<A>', 'optional<list<A>>', 'int'),
    declare('_[?_]', 'optional<B>', 'optional<map<A, B>>', 'A'),
  ],
} as const;

export const isIndex = (name: string): name is keyof typeof OVERLOADS => Object.hasOwn(OVERLOADS, name);

export function compileIndex(
  call: Call,
  name: keyof typeof OVERLOADS,
  scope: Scope,
  compiler: Compiler,
): Compiled {
  const [operand, key] = call.arguments.map((part) => compiler.compile(part, scope));
  if (operand === undefined || key === undefined) throw compiler.fail('index missing', call.at);
  const type = indexType(call, name, [operand.type, key.type], compiler);
  const coerce = coercionTo(type);
  const get = name === '_[_]' ? readCounted : lookUpCounted;
  const cost = costOfStep(operand) - (key.isPath === true ? 1 : 0);
  return {
    type,
    isPath: true,
    step: (frame) => coerce(get(frame, operand.step(frame), key.step(frame), cost)),
  };
}

function indexType(
  call: Call,
  name: keyof typeof OVERLOADS,
  types: readonly CelType[],
  compiler: Compiler,
): CelType {
  const container = compiler.solver.resolve(types[0] ?? DYN);
  const key = writtenKey(call.arguments[1]);
  if (container.kind !== 'object' || key === undefined) {
    return resolveOverloads({ name, types, member: false, at: call.at }, OVERLOADS[name], compiler).type;
  }
  const field = propertyType(container, key);
  if (field === undefined) throw noSuchField(container, key, call.at, compiler);
  return name === '_[_]' ? field : optionalOf(field);
}

const writtenKey = (key: Expression | undefined) =>
  key?.kind === 'literal' && typeof key.value === 'string' ? key.value : undefined;

function propertyType({ fields, open }: ObjectType, property: string): CelType | undefined {
  const found = [...fields.values()].find((field) => field.property === property);
  return found?.type ?? (open ? DYN : undefined);
}

/** @param most the largest edit distance; default: 2, or a third of the word if that is more */
export function nearest(
  word: string,
  candidates: Iterable<string>,
  most = Math.max(2, Math.floor(word.length / 3)),
): string | undefined {
  let best: string | undefined;
  let least = Math.min(most + 1, word.length);
  for (const candidate of candidates) {
    const distance = editDistance(word.toLowerCase(), candidate.toLowerCase());
    if (distance < least) [best, least] = [candidate, distance];
  }
  return best;
}

function editDistance(left: string, right: string): number {
  let row = Array.from({ length: right.length + 1 }, (_, index) => index);
  for (let i = 1; i <= left.length; i += 1) {
    const next = [i];
    for (let j = 1; j <= right.length; j += 1) {
      const change = (row[j - 1] ?? 0) + (left[i - 1] === right[j - 1] ? 0 : 1);
      next.push(Math.min(change, (row[j] ?? 0) + 1, (next[j - 1] ?? 0) + 1));
    }
    row = next;
  }
  return row.at(-1) ?? 0;
}

type Coercion = (value: unknown) => unknown;

/** Integers become doubles where the schema says `number`: JSON does not distinguish 3 from 3.0. */
function coercionTo(type: CelType): Coercion {
  if (type.kind === 'named' && type.name === 'double')
    return (value) => (typeof value === 'bigint' ? Number(value) : value);
  const isContainer = type.kind === 'list' || type.kind === 'map' || type.kind === 'optional';
  const inner = isContainer ? coercionTo(parameter(type, type.kind === 'map' ? 1 : 0)) : unchanged;
  if (inner === unchanged) return unchanged;
  return (value) => {
    if (isList(value)) return value.map(inner);
    if (isOptional(value)) return value.value === undefined ? value : optional(inner(value.value));
    return isMap(value) ? new Map(mapKeys(value).map((key) => [key, inner(mapGet(value, key))])) : value;
  };
}

const unchanged: Coercion = (value) => value;
