import { lookUp, read } from './access.ts';
import { coercionTo } from './coercion.ts';
import { undefinedField } from './compile-select.ts';
import type { Compiled, Compiler, Scope } from './compiler.ts';
import type { Call, Expression } from './syntax/expression.ts';
import { charge } from './frame.ts';
import type { CelFunction } from './library/define.ts';
import { resolveOverloads } from './overloads.ts';
import { type CelType, DYN, type ObjectType, optionalOf } from './type.ts';
import { parseType } from './type-name.ts';

const declare = (name: string, ...types: readonly string[]): CelFunction => {
  const [result = DYN, ...parameters] = types.map(parseType);
  return { name, member: false, parameters, result, tests: [], run: () => undefined };
};

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

/** `value[key]` and `value[?key]` */
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
  const get = name === '_[_]' ? read : lookUp;
  return {
    type,
    step: (frame) => {
      charge(frame, 1);
      const value = get(operand.step(frame), key.step(frame));
      return coerce === undefined ? value : coerce(value);
    },
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
  if (field === undefined) throw compiler.fail(undefinedField(container, key), call.at);
  return name === '_[_]' ? field : optionalOf(field);
}

const writtenKey = (key: Expression | undefined) =>
  key?.kind === 'literal' && typeof key.value === 'string' ? key.value : undefined;

/** In brackets a property has the name that it has in the object. */
function propertyType({ fields, open }: ObjectType, property: string): CelType | undefined {
  for (const field of fields.values()) {
    if (field.property === property) return field.type;
  }
  return open ? DYN : undefined;
}
