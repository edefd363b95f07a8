import { compileList, compileMap } from './compile-aggregate.ts';
import { compileCall } from './compile-call.ts';
import { compileComprehension, compileOptionalMap } from './compile-comprehension.ts';
import { compileSelect, compileTypeName, compileVariable } from './compile-select.ts';
import type { Compiled, Compiler, Scope } from './compiler.ts';
import type { Expression, Identifier, Message, MessageField } from '../syntax/expression.ts';
import {
  BOOL,
  BYTES,
  DOUBLE,
  INT,
  NULL,
  STRING,
  UINT,
  DYN,
  optionalOf,
  showType,
  type CelType,
} from '../types/type.ts';
import { isUint, isOptional, messageValue } from '../values/values.ts';
import { CelError } from '../cel-error.ts';
import { charge } from '../frame.ts';
import type { CelMessage } from './messages.ts';

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

const MESSAGE_COST = 40;

/** Compiles a message, such as `Object.spec{replicas: 1}`. Its value is a map. */
function compileMessage(message: Message, scope: Scope, compiler: Compiler): Compiled {
  const known = scope.messages(message.name);
  if (known === undefined)
    throw compiler.fail(`undeclared reference to '${message.name}' (in container '')`, message.at);
  const fields = message.fields.map((field) => ({
    name: unescaped(field.name),
    isOptional: field.optional,
    step: compileField(field, known, scope, compiler),
  }));
  return {
    type: known.type,
    step: (frame) => {
      charge(frame, MESSAGE_COST);
      const values = fields.flatMap(({ name, isOptional: optional, step }) => {
        const value = step(frame);
        return optional ? presentValue(value).map((one) => [name, one] as const) : [[name, value] as const];
      });
      return messageValue(message.name, values);
    },
  };
}

function compileField(field: MessageField, { fields }: CelMessage, scope: Scope, compiler: Compiler) {
  const { type, step } = compiler.compile(field.value, scope);
  const declared: CelType | undefined = fields === undefined ? DYN : fields.get(field.name)?.type;
  const wanted = declared !== undefined && field.optional ? optionalOf(declared) : declared;
  if (wanted !== undefined && compiler.solver.assign([wanted], [type])) return step;
  const expected = wanted === undefined ? '' : showType(wanted);
  const found = showType(compiler.solver.resolve(type));
  throw compiler.fail(
    `expected type of field '${field.name}' is '${expected}' but provided type is '${found}'`,
    field.at,
  );
}

function presentValue(value: unknown): readonly unknown[] {
  if (!isOptional(value)) throw new CelError('cannot initialize optional entry from non-optional value');
  return value.value === undefined ? [] : [value.value];
}

const ESCAPES: ReadonlyMap<string, string> = new Map([
  ['__underscores__', '__'],
  ['__dot__', '.'],
  ['__dash__', '-'],
  ['__slash__', '/'],
]);

/** The name of the property: names of fields are escaped as in other expressions about objects. */
const unescaped = (name: string): string =>
  name.replaceAll(/__(?:underscores|dot|dash|slash)__/g, (escape) => ESCAPES.get(escape) ?? escape);
