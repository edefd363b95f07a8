import { attempt, count, type Step } from '../frame.ts';
import { noSuchOverload } from '../cel-error.ts';
import type { Compiled, Compiler, Scope } from './compiler.ts';
import type { Call, Expression } from '../syntax/expression.ts';
import type { CelFunction } from '../library/define.ts';
import { type Called, resolveOverloads } from './overloads.ts';
import { BOOL } from '../types/type.ts';
import { parseType } from '../types/type-name.ts';

/**
 * Declares these three operators for the checker. They do not run like functions, because they evaluate their operands
 * one by one.
 */
const declare = (name: string, ...types: readonly string[]): CelFunction => {
  const parameters = types.map(parseType);
  return {
    name,
    member: false,
    parameters,
    result: parameters.at(-1) ?? BOOL,
    tests: [],
    run: () => undefined,
  };
};
const CONDITIONAL = declare('_?_:_', 'bool', 'A', 'A');
const LOGICAL = { '_&&_': declare('_&&_', 'bool', 'bool'), '_||_': declare('_||_', 'bool', 'bool') } as const;

export const isLogical = (name: string): name is keyof typeof LOGICAL => Object.hasOwn(LOGICAL, name);

export function compileLogical(
  call: Call,
  name: keyof typeof LOGICAL,
  scope: Scope,
  compiler: Compiler,
): Compiled {
  const steps = call.arguments.map((operand) => compiler.compile(operand, scope));
  const { type } = resolveOverloads(calledWith(call, steps), [LOGICAL[name]], compiler);
  const [left, right] = steps.map(({ step }) => step);
  return { type, step: logicalStep(name === '_||_', left ?? never, right ?? never) };
}

const calledWith = ({ name, at }: Call, operands: readonly Compiled[]): Called => ({
  name,
  at,
  member: false,
  types: operands.map(({ type }) => type),
});

const never: Step = () => {
  throw noSuchOverload();
};

/** @param decisive the value that decides the result, whatever the other operand is, even an error */
function logicalStep(decisive: boolean, left: Step, right: Step): Step {
  return (frame) => {
    const first = attempt(frame, left);
    if (first === decisive) return decisive;
    const second = typeof first === 'boolean' ? right(frame) : attempt(frame, right);
    if (second === decisive) return decisive;
    if (first instanceof Error) throw first;
    if (typeof first !== 'boolean' || typeof second !== 'boolean')
      throw second instanceof Error ? second : noSuchOverload();
    return !decisive;
  };
}

/** cel-go evaluates a path in a branch as a part of the conditional, which costs 1 less. */
function branchStep({ step, isPath = false }: Compiled, branch: Expression | undefined): Step {
  const isOther =
    (branch?.kind === 'call' && branch.name === '_?_:_') ||
    (branch?.kind === 'select' && branch.mode === 'test');
  if (!isPath || isOther) return step;
  return (frame) => {
    const value = step(frame);
    count(frame, -1);
    return value;
  };
}

export function compileConditional(call: Call, scope: Scope, compiler: Compiler): Compiled {
  const parts = call.arguments.map((part) => compiler.compile(part, scope));
  const { type } = resolveOverloads(calledWith(call, parts), [CONDITIONAL], compiler);
  const [condition = never, yes = never, no = never] = parts.map((part, index) =>
    index === 0 ? part.step : branchStep(part, call.arguments[index]),
  );
  return {
    ...{ type, isPath: true },
    step: (frame) => {
      const value = condition(frame);
      if (typeof value !== 'boolean') throw noSuchOverload();
      return value ? yes(frame) : no(frame);
    },
  };
}
