import type { CelError, UnknownName } from '../cel-error.ts';
import type { Expression } from '../syntax/expression.ts';
import type { Step } from '../values/values.ts';
import type { Solver } from '../types/solver.ts';
import { type CelType, DYN, type ObjectField, STRING } from '../types/type.ts';

export interface Compiled {
  readonly type: CelType;
  readonly step: Step;
  /** For a literal, and a conversion of one: its value. */
  readonly constant?: { readonly value: unknown };
  /** For a list or map of constants, which the API server creates only once. */
  readonly isFolded?: boolean;
  /** For a variable and what is read from it: cel-go evaluates the whole path as one step. */
  readonly isPath?: boolean;
}

/** Whether the API server knows the value when it plans the program. */
export const isConstant = ({ constant, isFolded = false }: Compiled): boolean =>
  constant !== undefined || isFolded;

export interface Variable {
  readonly type: CelType;
  readonly slot: number;
}

export interface Scope {
  readonly variables: ReadonlyMap<string, Variable>;
  /** Where list and map literals may mix types: not at all, everywhere, or (as here) in a call of `format`. */
  readonly mixed: 'never' | 'always' | 'in format' | 'deep in format';
  /** Whether types describe the values, even for calls that may return a dyn argument. */
  readonly exact: boolean;
  /** Whether the values are JSON, where no field is escaped. */
  readonly unconverted: boolean;
  readonly messages: CelMessages;
}

/** The function of an expression that older API servers refuse, or answer otherwise. */
export interface NeededServer {
  readonly name: string;
  /** The minor version of the first API server of Kubernetes 1 that answers as here. */
  readonly minor: number;
}

export interface Compiler {
  readonly solver: Solver;
  readonly fail: (message: string, at: number, unknown?: UnknownName) => CelError;
  readonly declare: (type: CelType) => Variable;
  readonly need: (needed: NeededServer) => void;
  /** The functions whose result may depend on whether a number of unknown type is an int or a double. */
  readonly distinguishing: Set<string>;
  readonly compile: (expression: Expression, scope: Scope) => Compiled;
  readonly typeOf: (expression: Expression) => CelType;
}

export const withVariables = (scope: Scope, added: Iterable<readonly [string, Variable]>): Scope => ({
  ...scope,
  variables: new Map([...scope.variables, ...added]),
});

/** The type of a message, by the name in the expression; undefined if there is none. */
export type CelMessages = (name: string) => CelMessage | undefined;

export interface CelMessage {
  readonly type: CelType;
  /** Undefined: every field exists, and its type is dyn. */
  readonly fields: ReadonlyMap<string, ObjectField> | undefined;
}

export const NO_MESSAGES: CelMessages = () => undefined;

const JSON_PATCH: CelMessage = {
  type: { kind: 'named', name: 'JSONPatch' },
  fields: new Map(
    Object.entries({ op: STRING, path: STRING, from: STRING, value: DYN }).map(([property, type]) => [
      property,
      { property, type },
    ]),
  ),
};

/** The messages in mutations of a MutatingAdmissionPolicy (k8s.io/apiserver/pkg/cel/mutation). */
export const MUTATION_MESSAGES: CelMessages = (name) => {
  if (name === 'JSONPatch') return JSON_PATCH;
  if (name !== 'Object' && !name.startsWith('Object.')) return undefined;
  return { type: { kind: 'object', name, fields: new Map(), open: true }, fields: undefined };
};
