import type { ASTNode } from '@marcbachmann/cel-js';
import type { CelError } from './cel-error.ts';
import type { Expression, Loop } from './expression.ts';

/** A call as the parser found it. */
export interface ParsedCall {
  readonly name: string;
  readonly target: ASTNode | undefined;
  readonly parts: readonly ASTNode[];
  readonly at: number;
}

export interface MacroContext {
  readonly convert: (node: ASTNode) => Expression;
  readonly fail: (message: string, at: number) => CelError;
}

/** How the parts of a looping macro's call are to be read, by its name and their number. */
interface LoopForm {
  readonly macro: Loop['macro'];
  readonly variables: 1 | 2;
  readonly filtered: boolean;
}

const form = (macro: Loop['macro'], variables: 1 | 2 = 1, filtered = false): LoopForm => ({
  macro,
  variables,
  filtered,
});

const LOOPS: ReadonlyMap<string, LoopForm> = new Map([
  ['all/2', form('all')],
  ['all/3', form('all', 2)],
  ['exists/2', form('exists')],
  ['exists/3', form('exists', 2)],
  ['exists_one/2', form('existsOne')],
  ['exists_one/3', form('existsOne', 2)],
  ['existsOne/2', form('existsOne')],
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

/** A call, or what stands for it where its name is that of a macro. */
export function expandMacro(call: ParsedCall, context: MacroContext): Expression {
  const { name, target, parts, at } = call;
  if (target === undefined && name === 'has' && parts.length === 1) return expandHas(call, context);
  if (target !== undefined) {
    const loop = LOOPS.get(`${name}/${parts.length}`);
    if (loop !== undefined) return expandLoop(loop, target, call, context);
    if ((name === 'optMap' || name === 'optFlatMap') && parts.length === 2) {
      return expandOptionalMap(target, call, context);
    }
  }
  return {
    kind: 'call',
    name,
    target: target === undefined ? undefined : context.convert(target),
    arguments: parts.map(context.convert),
    at,
  };
}

function expandHas({ parts, at }: ParsedCall, { convert, fail }: MacroContext): Expression {
  const [selected] = parts;
  if (selected?.op !== '.') throw fail('invalid argument to has() macro', at);
  const [operand, field] = selected.args;
  return { kind: 'select', operand: convert(operand), field, mode: 'test', at };
}

function expandLoop(
  { macro, variables, filtered }: LoopForm,
  target: ASTNode,
  { parts, at }: ParsedCall,
  { convert, fail }: MacroContext,
): Expression {
  const names = parts.slice(0, variables).map((part) => variableName(part, fail));
  const [name, other] = names;
  if (name === other) throw fail(`duplicate variable name: ${name ?? ''}`, at);
  const [first, second] = parts.slice(variables).map(convert);
  const body = filtered ? second : first;
  if (body === undefined) throw fail('argument missing', at);
  const filter = filtered ? first : undefined;
  return { kind: 'loop', macro, range: convert(target), variables: names, filter, body, at };
}

function expandOptionalMap(
  target: ASTNode,
  { name, parts, at }: ParsedCall,
  { convert, fail }: MacroContext,
): Expression {
  const [variable, body] = parts;
  if (variable === undefined || body === undefined) throw fail('argument missing', at);
  return {
    kind: 'optionalMap',
    operand: convert(target),
    variable: variableName(variable, fail),
    body: convert(body),
    flat: name === 'optFlatMap',
    at,
  };
}

function variableName(node: ASTNode, fail: MacroContext['fail']): string {
  if (node.op !== 'id') throw fail('argument must be a simple name', node.start);
  return node.args;
}
