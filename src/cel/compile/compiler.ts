import type { CelError } from '../cel-error.ts';
import type { Expression } from '../syntax/expression.ts';
import type { Step } from '../frame.ts';
import type { Solver } from '../types/solver.ts';
import type { CelType } from '../types/type.ts';

/** An expression that was checked: its type, and how it runs. */
export interface Compiled {
  readonly type: CelType;
  readonly step: Step;
}

export interface Variable {
  readonly type: CelType;
  /** Where its value is in the frame. */
  readonly slot: number;
}

/** What a part of an expression can see. */
export interface Scope {
  readonly variables: ReadonlyMap<string, Variable>;
  /** Whether literals of lists and maps may hold values of different types; arguments of `format` always may. */
  readonly mixed: boolean;
}

/** What the parts of the compiler share while they compile one expression. */
export interface Compiler {
  readonly solver: Solver;
  /** An error that points there. */
  readonly fail: (message: string, at: number) => CelError;
  /** A variable that no other expression sees. */
  readonly declare: (type: CelType) => Variable;
  /** @throws CelError */
  readonly compile: (expression: Expression, scope: Scope) => Compiled;
}

export const withVariables = (scope: Scope, added: Iterable<readonly [string, Variable]>): Scope => ({
  ...scope,
  variables: new Map([...scope.variables, ...added]),
});
