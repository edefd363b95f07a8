import { type JsonObject, memoizeWeak } from '../json/json.ts';
import {
  beginEvaluation,
  type CelBudget,
  celValue,
  createCelBudget,
  type Frame,
  NONE,
  optional,
  type Step,
  typeNameOf,
} from './values/values.ts';
import { asCelError, CelError, positionOf } from './cel-error.ts';
import { compileNode } from './compile/compile-node.ts';
import {
  type CelMessages,
  type Compiled,
  type Compiler,
  type NeededServer,
  NO_MESSAGES,
  type Scope,
  type Variable,
} from './compile/compiler.ts';
import type { Expression } from './syntax/expression.ts';
import { parseExpression } from './syntax/parse.ts';
import { usedFields, type UsedFields } from './syntax/used-fields.ts';
import { objectType } from './types/schema-type.ts';
import { createSolver } from './types/solver.ts';
import {
  type CelType,
  DYN,
  grounded,
  listOf,
  NUMBER,
  type ObjectField,
  parseType,
  showType,
  valueTest,
} from './types/type.ts';

export { CelError, type CelPosition, onCelError } from './cel-error.ts';
export { readsField, type UsedFields } from './syntax/used-fields.ts';

/** A CEL type such as `map<string, dyn>`, the type of another expression, a CRD's schema, exactly the named fields, or a list. */
export type CelVariableType =
  | string
  | { readonly result: Pick<CelProgram, 'resultType'> }
  | { readonly schema: JsonObject }
  | { readonly fields: Readonly<Record<string, CelVariableType>> }
  | { readonly items: CelVariableType };

/** The variables of an expression: a list of names (of type `dyn`), or a map from names to types. */
export type CelVariables = readonly string[] | Readonly<Record<string, CelVariableType>>;

export interface CelOptions {
  /** The required type of the result, e.g. `bool`. Checked during evaluation if the type is only known then. */
  readonly result?: string;
  /** Whether the values of a list or map literal must have one type, the way the API server requires it in its own rules. */
  readonly uniformLiterals?: boolean;
  /** By default, types are the API server's: `object.x.orValue("a")` is a string there, although its value may be null. */
  readonly exactTypes?: boolean;
  /** For programs that evaluate JSON without its schema: escaped fields are refused, and a `number` is dyn. */
  readonly unconverted?: boolean;
  /** The messages that the expression may create; default: none. */
  readonly messages?: CelMessages;
}

export interface CelProgram {
  /** As written. */
  readonly expression: string;
  /** The type of the result: `bool`, `string`, `list(int)`, …, or `dyn` if it is only known during evaluation. */
  readonly type: string;
  readonly resultType: CelType;
  /** The names in the expression, including variables of macros. */
  readonly names: ReadonlySet<string>;
  /** Undefined: every supported API server answers as here. */
  readonly needs: NeededServer | undefined;
  /** The functions whose result may depend on whether a number of unknown type is an int or a double. */
  readonly distinguishing: ReadonlySet<string>;
  /** The variables that the expression reads, and which of their fields. */
  readonly reads: ReadonlyMap<string, UsedFields>;
  /**
   * Evaluates the expression with a JSON value (see `celValue`) for each variable that it reads. The values must not
   * change during the evaluation. Arrays must never change afterwards, because their conversion is cached.
   *
   * @param budget the cost limit, which several evaluations may share; default: {@link CEL_COST_LIMIT} for this one
   * @returns a CEL value: integers are bigint, lists are arrays, maps are Map or object; see `celToJson`
   * @throws CelError such as `no such key: x`
   */
  readonly evaluate: (bindings: Readonly<Record<string, unknown>>, budget?: CelBudget) => unknown;
  /** Like `evaluate`, but with CEL values. */
  readonly run: (values: Readonly<Record<string, unknown>>, budget?: CelBudget) => unknown;
}

/** Reports all errors that do not depend on values. @throws CelError with a position */
export function compileCel(
  expression: string,
  variables: CelVariables,
  options: CelOptions = {},
): CelProgram {
  try {
    const { unconverted = false } = options;
    const { expression: parsed, names } = parseExpression(expression);
    const { compiler, globals, size, needs } = createCompiler(expression, variables, names, unconverted);
    const compiled = compiler.compile(parsed, {
      variables: globals,
      mixed: options.uniformLiterals === true ? 'never' : 'always',
      exact: options.exactTypes === true,
      unconverted,
      messages: options.messages ?? NO_MESSAGES,
    });
    const type = compiler.solver.resolve(compiled.type);
    const step = withResult({ type, step: compiled.step }, options, compiler);
    const used = [...globals].map(([name, { slot }]) => [name, slot] as const);
    const slots = size();
    const execute = (
      values: Readonly<Record<string, unknown>>,
      convert: (value: unknown) => unknown,
      budget: CelBudget = createCelBudget(),
    ): unknown => {
      const frame: Frame = { slots: new Array<unknown>(slots), budget };
      try {
        beginEvaluation();
        for (const [name, slot] of used)
          frame.slots[slot] = Object.hasOwn(values, name) ? convert(values[name]) : undefined;
        return step(frame);
      } catch (error) {
        throw asCelError(error);
      }
    };
    return {
      expression,
      type: showType(type),
      resultType: grounded(type),
      names,
      needs: needs(),
      distinguishing: compiler.distinguishing,
      reads: usedFields(parsed),
      evaluate: (bindings, budget) => execute(bindings, celValue, budget),
      run: (values, budget) => execute(values, (value) => value, budget),
    };
  } catch (error) {
    throw asCelError(error);
  }
}

/** Creates a CEL optional; `undefined` creates an empty one. */
export const celOptional = (value: unknown): unknown => (value === undefined ? NONE : optional(value));

/** `globals` has the variables that the expression reads. Call `size` and `needs` after compilation. */
function createCompiler(
  source: string,
  variables: CelVariables,
  names: ReadonlySet<string>,
  unconverted: boolean,
) {
  const schemaType = unconverted ? unconvertedType : convertedType;
  let size = 0;
  let needed: NeededServer | undefined;
  const declare = (type: CelType): Variable => ({ type, slot: size++ });
  const globals = new Map<string, Variable>();
  for (const [name, type] of variableTypes(variables)) {
    // A dotted name such as `authorizer.requestResource` is one variable.
    if (names.has(name.split('.', 1)[0] ?? ''))
      globals.set(name, declare(typeOfVariable(type, name, schemaType)));
  }
  const types = new WeakMap<Expression, CelType>();
  const compiler: Compiler = {
    solver: createSolver(),
    fail: (message, at, unknown) =>
      new CelError(message, {
        position: positionOf(source, at),
        ...(unknown === undefined ? {} : { unknown }),
      }),
    declare,
    need: (one) => {
      if (one.minor > (needed?.minor ?? 0)) needed = one;
    },
    distinguishing: new Set(),
    compile: (expression, scope) => {
      const compiled = compileNode(expression, within(expression, scope), compiler);
      types.set(expression, compiled.type);
      return compiled;
    },
    typeOf: (expression) => types.get(expression) ?? DYN,
  };
  return { compiler, globals, size: () => size, needs: () => needed };
}

const within = ({ kind }: Expression, scope: Scope): Scope =>
  scope.mixed === 'in format' && kind !== 'list' && kind !== 'map'
    ? { ...scope, mixed: 'deep in format' }
    : scope;

const variableTypes = (variables: CelVariables): readonly (readonly [string, CelVariableType])[] =>
  isNames(variables) ? variables.map((name) => [name, 'dyn']) : Object.entries(variables);

const isNames = (variables: CelVariables): variables is readonly string[] => Array.isArray(variables);

const convertedType = memoizeWeak((schema: JsonObject) => objectType(schema));
const unconvertedType = memoizeWeak((schema: JsonObject) => objectType(schema, NUMBER));

function typeOfVariable(type: CelVariableType, name: string, schemaType: typeof convertedType): CelType {
  if (typeof type === 'string') return parseType(type);
  if ('result' in type) return type.result.resultType;
  if ('items' in type) return listOf(typeOfVariable(type.items, `${name}[]`, schemaType));
  if ('fields' in type) {
    const fields = Object.entries(type.fields).map(([property, field]): [string, ObjectField] => [
      property,
      { property, type: typeOfVariable(field, `${name}.${property}`, schemaType) },
    ]);
    return { kind: 'object', name, fields: new Map(fields), open: false, sealed: true };
  }
  return schemaType(type.schema);
}

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
