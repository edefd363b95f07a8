import { compileList, compileMap } from './compile-aggregate.ts';
import { compileCall } from './compile-call.ts';
import { compileComprehension, compileOptionalMap } from './compile-comprehension.ts';
import { compileMessage } from './compile-message.ts';
import { compileSelect, compileTypeName, compileVariable } from './compile-select.ts';
import type { Compiled, Compiler, Scope } from './compiler.ts';
import type { Expression, Identifier } from '../syntax/expression.ts';
import { BOOL, BYTES, type CelType, DOUBLE, INT, NULL, STRING, UINT } from '../types/type.ts';
import { isUint } from '../values/values.ts';

/** Checks an expression and compiles it. @throws CelError if it is invalid */
export function compileNode(expression: Expression, scope: Scope, compiler: Compiler): Compiled {
  switch (expression.kind) {
    case 'literal': {
      const { value } = expression;
      return { type: literalType(value), step: () => value, constant: { value } };
    }
    case 'identifier':
      return compileIdentifier(expression, scope, compiler);
    case 'select':
      return compileSelect(expression, scope, compiler);
    case 'call':
      return compileCall(expression, scope, compiler);
    case 'list':
      return compileList(expression.items, scope, compiler);
    case 'map':
      return compileMap(expression.entries, scope, compiler);
    case 'message':
      return compileMessage(expression, scope, compiler);
    case 'comprehension':
      return compileComprehension(expression, scope, compiler);
    case 'optionalMap':
      return compileOptionalMap(expression, scope, compiler);
  }
}

function literalType(value: unknown): CelType {
  switch (typeof value) {
    case 'string':
      return STRING;
    case 'bigint':
      return INT;
    case 'number':
      return DOUBLE;
    case 'boolean':
      return BOOL;
    case 'object':
    case 'undefined':
    case 'symbol':
    case 'function':
      return isUint(value) ? UINT : value === null ? NULL : BYTES;
  }
}

function compileIdentifier({ name, at }: Identifier, { variables }: Scope, { fail }: Compiler): Compiled {
  const variable = variables.get(name);
  if (variable === undefined) {
    const typeName = compileTypeName(name);
    if (typeName !== undefined) return typeName;
    const message = `undeclared reference to '${name}' (in container '')`;
    throw fail(message, at, { kind: 'variable', name, known: [] });
  }
  return compileVariable(name, variable);
}
