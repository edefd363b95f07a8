import type { Expression } from './expression.ts';
import { partsOf } from './used-fields.ts';

/** One step of a path such as `object.?spec.tier`. */
export interface ReadStep {
  readonly name: string;
  /** Whether the expression fails if there is no such field. */
  readonly strict: boolean;
}

/** Which parts of a variable an expression reads; an empty path: all of it. A variable of a macro counts too. */
export function readPaths(expression: Expression, variable: string): readonly (readonly ReadStep[])[] {
  const path = pathFrom(expression, variable);
  if (path !== undefined) return [path];
  const [outer, inner] = partsOf(expression);
  return [...outer, ...inner].flatMap((part) => readPaths(part, variable));
}

/** The path of `object.a.b`; undefined if the expression is something else. */
export function pathFrom(expression: Expression, variable: string): readonly ReadStep[] | undefined {
  if (expression.kind === 'identifier') return expression.name === variable ? [] : undefined;
  const [operand, step] = stepOf(expression);
  if (operand === undefined || step === undefined) return undefined;
  const before = pathFrom(operand, variable);
  if (before === undefined) return undefined;
  // A field of an optional is optional, too.
  const isOptional = before.some(({ strict }) => !strict);
  return [...before, { ...step, strict: step.strict && !isOptional }];
}

function stepOf(expression: Expression): readonly [operand?: Expression, step?: ReadStep] {
  if (expression.kind === 'select')
    return [expression.operand, { name: expression.field, strict: expression.mode === 'read' }];
  if (expression.kind !== 'call' || (expression.name !== '_[_]' && expression.name !== '_[?_]')) return [];
  const [operand, key] = expression.arguments;
  if (operand === undefined || key?.kind !== 'literal' || typeof key.value !== 'string') return [];
  return [operand, { name: key.value, strict: expression.name === '_[_]' }];
}
