import { hasField, lookUp, read } from './access.ts';
import { coercionTo } from './coercion.ts';
import type { Compiled, Compiler, Scope } from './compiler.ts';
import type { Expression, Select } from './syntax/expression.ts';
import { charge, type Step } from './frame.ts';
import { nearest } from './nearest.ts';
import { BOOL, type CelType, DYN, type ObjectType, optionalOf, parameter, showType, typeOf } from './type.ts';
import { nameableTypes } from './type-name.ts';
import { typeValue } from './values.ts';

/** The dotted name that a chain of selections spells, if it is nothing else. */
export function qualifiedName(expression: Expression): string | undefined {
  if (expression.kind === 'identifier') return expression.name;
  if (expression.kind !== 'select' || expression.mode !== 'read') return undefined;
  const operand = qualifiedName(expression.operand);
  return operand === undefined ? undefined : `${operand}.${expression.field}`;
}

/** The name of a type where a value is wanted, as in `type(x) == int`. */
export function compileTypeName(name: string): Compiled | undefined {
  const type = nameableTypes.get(name);
  if (type === undefined) return undefined;
  const value = typeValue(name);
  return { type: typeOf(type), step: () => value };
}

export function compileSelect(select: Select, scope: Scope, compiler: Compiler): Compiled {
  const name = qualifiedName(select);
  const typeName = name === undefined ? undefined : compileTypeName(name);
  if (typeName !== undefined) return typeName;
  const operand = compiler.compile(select.operand, scope);
  const { type, property } = fieldOf(compiler.solver.resolve(operand.type), select, compiler);
  return { type, step: selectStep(operand.step, property, select.mode, type) };
}

interface Field {
  readonly property: string;
  readonly type: CelType;
}

function fieldOf(operand: CelType, select: Select, compiler: Compiler): Field {
  const { field, mode, at } = select;
  const viral = operand.kind === 'optional';
  const container = viral ? parameter(operand) : operand;
  const found = fieldIn(container, field);
  if (found === undefined) throw compiler.fail(noSuchField(container, field), at);
  if (mode === 'test') return { ...found, type: BOOL };
  return viral || mode === 'optional' ? { ...found, type: optionalOf(found.type) } : found;
}

function fieldIn(container: CelType, field: string): Field | undefined {
  switch (container.kind) {
    case 'dyn':
    case 'variable':
      return { property: field, type: DYN };
    case 'map':
      return { property: field, type: parameter(container, 1) };
    case 'object':
      return container.fields.get(field) ?? (container.open ? { property: field, type: DYN } : undefined);
    case 'named':
    case 'list':
    case 'optional':
    case 'type':
      return undefined;
  }
}

function noSuchField(container: CelType, field: string): string {
  if (container.kind !== 'object') return `type '${showType(container)}' does not support field selection`;
  return undefinedField(container, field);
}

/** That the schema has no such field, and which one might be meant. */
export function undefinedField({ name, fields }: ObjectType, field: string): string {
  const meant = nearest(field, fields.keys());
  return `undefined field '${field}' in ${name}${meant === undefined ? '' : `: did you mean '${meant}'?`}`;
}

function selectStep(operand: Step, property: string, mode: Select['mode'], type: CelType): Step {
  if (mode === 'test') return (frame) => hasField(operand(frame), property);
  const coerce = coercionTo(type);
  const get = mode === 'optional' ? lookUp : read;
  if (coerce === undefined) {
    return (frame) => {
      charge(frame, 1);
      return get(operand(frame), property);
    };
  }
  return (frame) => {
    charge(frame, 1);
    return coerce(get(operand(frame), property));
  };
}
