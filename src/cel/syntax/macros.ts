import type { CelError } from '../cel-error.ts';
import type { Call, Comprehension, Expression, Identifier } from './expression.ts';

interface MacroContext {
  readonly fail: (message: string, at: number) => CelError;
  /** Called for a name that declares a variable and does not read one. */
  readonly declare: (identifier: Identifier) => void;
}

interface Form {
  readonly macro: Comprehension['macro'];
  readonly variables: 1 | 2;
  readonly filtered: boolean;
}

const form = (macro: Comprehension['macro'], variables: 1 | 2 = 1, filtered = false): Form => ({
  macro,
  variables,
  filtered,
});

const COMPREHENSIONS: ReadonlyMap<string, Form> = new Map([
  ['all/2', form('all')],
  ['all/3', form('all', 2)],
  ['exists/2', form('exists')],
  ['exists/3', form('exists', 2)],
  ['exists_one/2', form('existsOne')],
  ['exists_one/3', form('existsOne', 2)],
  ['existsOne/3', form('existsOne', 2)],
  ['filter/2', form('filter')],
  ['map/2', form('map')],
  ['map/3', form('map', 1, true)],
  ['transformList/3', form('map', 2)],
  ['transformList/4', form('map', 2, true)],
  ['transformMap/3', form('transformMap', 2)],
  ['transformMap/4', form('transformMap', 2, true)],
  ['transformMapEntry/3', form('transformMapEntry', 2)],
  ['transformMapEntry/4', form('transformMapEntry', 2, true)],
  ['sortBy/2', form('sortBy')],
]);

export const MACROS: ReadonlySet<string> = new Set([
  ...['has', 'optMap', 'optFlatMap'],
  ...Array.from(COMPREHENSIONS.keys(), (form) => form.split('/', 1)[0] ?? ''),
]);

/** Returns all other calls unchanged. @throws CelError */
export function expandMacro(call: Call, context: MacroContext): Expression {
  const { name, target, arguments: parts } = call;
  if (target === undefined) return name === 'has' && parts.length === 1 ? expandHas(call, context) : call;
  const comprehension = COMPREHENSIONS.get(`${name}/${parts.length}`);
  if (comprehension !== undefined) return expandComprehension(comprehension, target, call, context);
  return (name === 'optMap' || name === 'optFlatMap') && parts.length === 2
    ? expandOptionalMap(target, call, context)
    : call;
}

function expandHas({ arguments: [selected], at }: Call, { fail }: MacroContext): Expression {
  if (selected?.kind !== 'select' || selected.mode !== 'read')
    throw fail('invalid argument to has() macro', at);
  return { ...selected, mode: 'test', at };
}

function expandComprehension(
  { macro, variables: count, filtered }: Form,
  range: Expression,
  { arguments: parts, at }: Call,
  context: MacroContext,
): Expression {
  const variables = parts.slice(0, count).map((part) => variableName(part, context));
  const [name, other] = variables;
  if (name === other) throw context.fail(`duplicate variable name: ${name ?? ''}`, at);
  if (macro === 'sortBy' && !SORTABLE.has(range.kind))
    throw context.fail(
      'sortBy can only be applied to a list, identifier, comprehension, call or select expression',
      range.at,
    );
  const [first, second] = parts.slice(count);
  const body = filtered ? second : first;
  if (body === undefined) throw context.fail('argument missing', at);
  return { kind: 'comprehension', macro, range, variables, filter: filtered ? first : undefined, body, at };
}

function expandOptionalMap(
  operand: Expression,
  { name, arguments: [variable, body], at }: Call,
  context: MacroContext,
): Expression {
  if (variable === undefined || body === undefined) throw context.fail('argument missing', at);
  const declared = variableName(variable, context);
  return { kind: 'optionalMap', operand, variable: declared, body, flat: name === 'optFlatMap', at };
}

const SORTABLE = new Set<Expression['kind']>([
  'list',
  'identifier',
  'comprehension',
  'optionalMap',
  'call',
  'select',
]);

function variableName(expression: Expression, { fail, declare }: MacroContext): string {
  if (expression.kind !== 'identifier') throw fail('argument must be a simple name', expression.at);
  declare(expression);
  return expression.name;
}
