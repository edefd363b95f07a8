import { charge, count, type Frame, isOptional, keyOf, messageValue, typeNameOf } from '../values/values.ts';
import { compileCall } from './compile-call.ts';
import { compileComprehension, compileOptionalMap } from './compile-comprehension.ts';
import { compileSelect, compileTypeName, compileVariable } from './compile-select.ts';
import { type CelMessage, type Compiled, type Compiler, isConstant, type Scope } from './compiler.ts';
import type { Entry, Expression, Identifier, Item, Message, MessageField } from '../syntax/expression.ts';
import { type CelType, DYN, listOf, mapOf, optionalOf, parseType, showType } from '../types/type.ts';
import { CelError } from '../cel-error.ts';
import { propertyName } from '../types/schema-type.ts';
import { isSameType } from '../types/solver.ts';

export function compileNode(expression: Expression, scope: Scope, compiler: Compiler): Compiled {
  switch (expression.kind) {
    case 'literal': {
      const { value } = expression;
      return { type: parseType(typeNameOf(value)), step: () => value, constant: { value } };
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

function compileMessage(message: Message, scope: Scope, compiler: Compiler): Compiled {
  const known = scope.messages(message.name);
  if (known === undefined)
    throw compiler.fail(`undeclared reference to '${message.name}' (in container '')`, message.at);
  const fields = message.fields.map((field) => ({
    name: propertyName(field.name), // names of fields are escaped as in other expressions about objects
    isOptional: field.optional,
    step: compileField(field, known, scope, compiler),
  }));
  return {
    type: known.type,
    step: (frame) => {
      charge(frame, MESSAGE_COST);
      const values = fields.flatMap(({ name, isOptional: optional, step }) => {
        const value = step(frame);
        return itemValue(value, optional, 'entry').map((one) => [name, one] as const);
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

const LIST_COST = 10;
const MAP_COST = 30;

function compileList(items: readonly Item[], scope: Scope, compiler: Compiler): Compiled {
  const values = items.map((item) => compileItem(item, scope, compiler));
  const type = listOf(joined(values, scope, compiler));
  const steps = values.map(({ step }) => step);
  const hasOptional = items.some(({ optional }) => optional);
  const isFolded = values.every(isConstant) && !hasOptional;
  const cost = isFolded ? 0 : LIST_COST;
  return {
    type,
    isFolded,
    step: (frame) => {
      charge(frame, LIST_COST);
      count(frame, cost);
      return hasOptional
        ? steps.flatMap((step, index) => itemValue(step(frame), items[index]?.optional === true))
        : steps.map((step) => step(frame));
    },
  };
}

interface CompiledItem extends Compiled {
  readonly at: number;
}

function compileItem({ value, optional }: Item, scope: Scope, compiler: Compiler): CompiledItem {
  const compiled = compiler.compile(value, scope);
  const { type, step } = compiled;
  const { at } = value;
  if (!optional) return { ...compiled, at };
  const inner = compiler.solver.fresh();
  if (!compiler.solver.assign([optionalOf(inner)], [type])) {
    throw compiler.fail(
      `expected type 'optional_type(dyn)' but found '${showType(compiler.solver.resolve(type))}'`,
      at,
    );
  }
  return { type: inner, step, at };
}

function joined(items: readonly CompiledItem[], { mixed }: Scope, compiler: Compiler): CelType {
  const [first, ...rest] = items;
  if (first === undefined) return compiler.solver.fresh();
  return rest.reduce((type, item) => {
    const fits = compiler.solver.assign([type], [item.type]);
    const [expected, found] = [compiler.solver.resolve(first.type), compiler.solver.resolve(item.type)];
    if (!isSameType(expected, found)) {
      if (mixed === 'never')
        throw compiler.fail(`expected type '${showType(expected)}' but found '${showType(found)}'`, item.at);
      // 1.30 allows mixed types only if there are just literals between the list and the format.
      if (mixed === 'deep in format') compiler.need({ name: 'a list of mixed types', minor: 31 });
    }
    return fits ? type : DYN;
  }, first.type);
}

function itemValue(
  value: unknown,
  optional: boolean,
  what: 'list element' | 'entry' = 'list element',
): readonly unknown[] {
  if (!optional) return [value];
  if (!isOptional(value)) throw new CelError(`cannot initialize optional ${what} from non-optional value`);
  return value.value === undefined ? [] : [value.value];
}

function compileMap(entries: readonly Entry[], scope: Scope, compiler: Compiler): Compiled {
  const keys = entries.map(({ key }) => ({ ...compiler.compile(key, scope), at: key.at }));
  const values = entries.map((entry) => compileItem(entry, scope, compiler));
  const type = mapOf(joined(keys, scope, compiler), joined(values, scope, compiler));
  const isFolded = [...keys, ...values].every(isConstant) && !entries.some(({ optional }) => optional);
  const cost = isFolded ? 0 : MAP_COST;
  return {
    type,
    isFolded,
    step: (frame) => {
      charge(frame, MAP_COST);
      const map = new Map(
        entries.flatMap(({ optional }, index) => entryOf(frame, keys[index], values[index], optional)),
      );
      count(frame, cost);
      return map;
    },
  };
}

function entryOf(
  frame: Frame,
  key: Compiled | undefined,
  value: Compiled | undefined,
  optional: boolean,
): readonly (readonly [unknown, unknown])[] {
  const written = key?.step(frame);
  return itemValue(value?.step(frame), optional).map((item) => [keyOf(written), item]);
}
