/** What an expression yields, as far as its text says: the literals in it. */
import { CelError } from '../../../cel/cel.ts';
import { withoutDyn, type Expression } from '../../../cel/syntax/expression.ts';
import { parseExpression } from '../../../cel/syntax/parse.ts';
import { UNKNOWN, type Shape } from './field-flaw.ts';

/** One shape for each branch of the conditionals around it; empty if the text is no expression. */
export function shapesOf(text: string): readonly Shape[] {
  try {
    return branches(parseExpression(text).expression).map(shapeOf);
  } catch (error) {
    if (error instanceof CelError || error instanceof RangeError) return [];
    throw error;
  }
}

function branches(written: Expression): readonly Expression[] {
  const expression = withoutDyn(written);
  if (expression.kind !== 'call' || expression.name !== '_?_:_') return [expression];
  return expression.arguments.slice(1).flatMap(branches);
}

function shapeOf(written: Expression): Shape {
  const expression = withoutDyn(written);
  switch (expression.kind) {
    case 'literal':
      return literal(expression.value);
    case 'list':
      return expression.items.map(({ optional, value }) => (optional ? UNKNOWN : shapeOf(value)));
    case 'map':
      return Object.fromEntries(
        expression.entries.flatMap(({ key, optional, value }): readonly [string, Shape][] =>
          key.kind === 'literal' && typeof key.value === 'string'
            ? [[key.value, optional ? UNKNOWN : shapeOf(value)]]
            : [],
        ),
      );
    case 'call':
    case 'comprehension':
    case 'identifier':
    case 'message':
    case 'optionalMap':
    case 'select':
      return UNKNOWN;
  }
}

/** Unsigned integers and bytes become other JSON values. */
function literal(value: unknown): Shape {
  const isJson =
    value === null || typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean';
  return isJson || typeof value === 'bigint' ? value : UNKNOWN;
}
