import type { JsonObject } from '../json/json.ts';
import { type CelBudget, type Step, EXPRESSION_COST_LIMIT, type Frame } from './frame.ts';
import { asCelError, CelError, positionOf } from './cel-error.ts';
import { celValue } from './values/maps.ts';
import { compileNode } from './compile/compile-node.ts';
import type { Compiled, Compiler, Variable } from './compile/compiler.ts';
import { parseExpression } from './syntax/parse.ts';
import { objectType } from './types/schema-type.ts';
import { createSolver } from './types/solver.ts';
import { type CelType, listOf, type ObjectField, showType } from './types/type.ts';
import { parseType } from './types/type-name.ts';
import { valueTest } from './types/value-test.ts';
import { NONE, optional, typeNameOf } from './values/values.ts';

export { CelError } from './cel-error.ts';

/**
 * What an expression may assume of a variable: a CEL type such as `dyn`, `string` or `map<string, dyn>`; to be an object with a
 * CRD's schema; to have the fields that are named, and no others; to be a list of such things.
 */
export type CelVariableType =
  | string
  | { readonly schema: JsonObject }
  | { readonly fields: Readonly<Record<string, CelVariableType>> }
  | { readonly items: CelVariableType };

/** The variables of an expression: names alone (then of type `dyn`), or name → type. */
export type CelVariables = readonly string[] | Readonly<Record<string, CelVariableType>>;

export interface CelOptions {
  /** Type that the result must have, e.g. `bool`. Where only the values will tell, it is checked at evaluation. */
  readonly result?: string;
  /**
   * Literals of lists and maps must hold values of one type, as the API server demands of its own rules. Otherwise they may be
   * mixed: an expression that writes a part of an object could hardly do without.
   */
  readonly uniformLiterals?: boolean;
}

export interface CelProgram {
  /** As written. */
  readonly expression: string;
  /** Of the result: `bool`, `string`, `list(int)`, … or `dyn` where only the values will tell. */
  readonly type: string;
  /** The names that it mentions, variables of macros among them. */
  readonly names: ReadonlySet<string>;
  /**
   * Runs it with JSON values (see `celValue`), one for each variable that it reads. They must not change while it runs, nor may
   * arrays ever after.
   *
   * @param budget what is left of it limits the cost, besides the limit that each expression has
   * @returns a CEL value: integers are bigint, lists arrays, maps Map or object; see `celToJson`
   * @throws CelError such as `no such key: x`
   */
  readonly evaluate: (bindings: Readonly<Record<string, unknown>>, budget?: CelBudget) => unknown;
  /** The same with values that are CEL values already. */
  readonly run: (values: Readonly<Record<string, unknown>>, budget?: CelBudget) => unknown;
}

/**
 * Compiles an expression: finds out its type, and all that can be found out of it without values.
 *
 * @throws CelError with a position when it does not parse, names a variable, field or function that does not exist, or cannot work
 * with the types of its variables
 */
export function compileCel(
  expression: string,
  variables: CelVariables,
  options: CelOptions = {},
): CelProgram {
  try {
    const { expression: parsed, names } = parseExpression(expression);
    const { compiler, globals, size } = createCompiler(expression, variables, names);
    const compiled = compiler.compile(parsed, {
      variables: globals,
      mixed: options.uniformLiterals !== true,
    });
    const type = compiler.solver.resolve(compiled.type);
    const executable: Executable = {
      step: withResult({ type, step: compiled.step }, options, compiler),
      used: [...globals].map(([name, { slot }]) => [name, slot]),
      size: size(),
    };
    return {
      expression,
      type: showType(type),
      names,
      evaluate: (bindings, budget) => execute(executable, bindings, celValue, budget),
      run: (values, budget) => execute(executable, values, asIs, budget),
    };
  } catch (error) {
    throw asCelError(error);
  }
}

/** CEL's optional values; `undefined` is none. */
export const celOptional = (value: unknown): unknown => (value === undefined ? NONE : optional(value));

interface CompilerOfExpression {
  readonly compiler: Compiler;
  /** The variables that the expression mentions. */
  readonly globals: ReadonlyMap<string, Variable>;
  /** How many variables there are, those of macros among them, once all is compiled. */
  readonly size: () => number;
}

function createCompiler(
  source: string,
  variables: CelVariables,
  names: ReadonlySet<string>,
): CompilerOfExpression {
  let size = 0;
  const declare = (type: CelType): Variable => ({ type, slot: size++ });
  const globals = new Map<string, Variable>();
  for (const [name, type] of variableTypes(variables)) {
    if (names.has(name)) globals.set(name, declare(typeOfVariable(type, name)));
  }
  const compiler: Compiler = {
    solver: createSolver(),
    fail: (message, at) => new CelError(message, { position: positionOf(source, at) }),
    declare,
    compile: (expression, scope) => compileNode(expression, scope, compiler),
  };
  return { compiler, globals, size: () => size };
}

const variableTypes = (variables: CelVariables): readonly (readonly [string, CelVariableType])[] =>
  isNames(variables) ? variables.map((name) => [name, 'dyn']) : Object.entries(variables);

const isNames = (variables: CelVariables): variables is readonly string[] => Array.isArray(variables);

const schemaTypes = new WeakMap<JsonObject, CelType>();

/** @param name for messages */
function typeOfVariable(type: CelVariableType, name: string): CelType {
  if (typeof type === 'string') return parseType(type);
  if ('items' in type) return listOf(typeOfVariable(type.items, `${name}[]`));
  if ('fields' in type) {
    const fields = Object.entries(type.fields).map(([property, field]): [string, ObjectField] => [
      property,
      { property, type: typeOfVariable(field, `${name}.${property}`) },
    ]);
    return { kind: 'object', name, fields: new Map(fields), open: false };
  }
  const known = schemaTypes.get(type.schema) ?? objectType(type.schema);
  schemaTypes.set(type.schema, known);
  return known;
}

/** Adds the check that the result has the type that is wanted, where only values tell. */
function withResult({ type, step }: Compiled, { result }: CelOptions, { solver }: Compiler): Step {
  if (result === undefined) return step;
  const wanted = parseType(result);
  if (!solver.assign([wanted], [type]))
    throw new CelError(`must evaluate to ${result} but got ${showType(type)}`);
  const isWanted = valueTest(wanted);
  return (frame) => {
    const value = step(frame);
    if (isWanted(value)) return value;
    throw new CelError(`must evaluate to ${result} but got ${typeNameOf(value)}`);
  };
}

const asIs = (value: unknown) => value;

/** What is to run, and where it expects the values of its variables. */
export interface Executable {
  readonly step: Step;
  readonly used: readonly (readonly [name: string, slot: number])[];
  /** How many variables there are, those of macros among them. */
  readonly size: number;
}

/**
 * Runs it once.
 *
 * @param convert what makes CEL values of the given ones
 * @throws CelError
 */
export function execute(
  { step, used, size }: Executable,
  values: Readonly<Record<string, unknown>>,
  convert: (value: unknown) => unknown,
  budget: CelBudget | undefined,
): unknown {
  const limit = Math.min(EXPRESSION_COST_LIMIT, budget?.remaining ?? Infinity);
  const frame: Frame = { slots: new Array<unknown>(size), cost: 0, limit };
  try {
    for (const [name, slot] of used) {
      frame.slots[slot] = Object.hasOwn(values, name) ? convert(values[name]) : undefined;
    }
    return step(frame);
  } catch (error) {
    throw asCelError(error);
  } finally {
    if (budget !== undefined) budget.remaining = Math.max(0, budget.remaining - frame.cost);
  }
}
