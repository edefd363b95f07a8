import { CelError } from '../cel-error.ts';
import { charge } from '../frame.ts';
import type { Message, MessageField } from '../syntax/expression.ts';
import { type CelType, DYN, optionalOf, showType } from '../types/type.ts';
import { isOptional, messageValue } from '../values/values.ts';
import type { Compiled, Compiler, Scope } from './compiler.ts';
import type { CelMessage } from './messages.ts';

const MESSAGE_COST = 40;

/** Compiles a message, such as `Object.spec{replicas: 1}`. Its value is a map. */
export function compileMessage(message: Message, scope: Scope, compiler: Compiler): Compiled {
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
