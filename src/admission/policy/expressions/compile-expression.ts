import type { PolicyParams, PolicyVariable } from '../../../api/admission-policy.ts';
import { compileCel, CelError, type CelProgram } from '../../../cel/cel.ts';
import type { CompiledExpression, CompiledVariable, Reads } from './expression.ts';
import type { JsonObject } from '../../../json/json.ts';
import type { Problem } from '../problem.ts';

/** The result type of an expression. */
export type ExpressionResult = 'bool' | 'string' | 'any';

/** Compiles the expressions of one policy and adds their errors to its problems. */
export interface ExpressionCompiler {
  readonly compile: (
    text: string,
    where: string,
    result: ExpressionResult,
    /** Whether the expression may use `refs`; defaults and mutations may not. */
    options?: { readonly refs: boolean },
  ) => CompiledExpression | undefined;
  readonly variables: readonly CompiledVariable[];
}

/** Names that every expression may use. */
const NAMES = ['object', 'oldObject', 'request', 'namespaceObject', 'variables'] as const;

/**
 * @param schemas the known schemas of the governed kinds: an expression must type-check against at least one of them
 */
export function createExpressionCompiler(
  given: { readonly variables?: readonly PolicyVariable[]; readonly params?: PolicyParams },
  schemas: readonly JsonObject[],
  problems: Problem[],
): ExpressionCompiler {
  const names = given.params === undefined ? NAMES : [...NAMES, 'params'];
  const variables: CompiledVariable[] = [];
  const compile: ExpressionCompiler['compile'] = (text, where, result, { refs } = { refs: false }) => {
    try {
      const known = refs ? [...names, 'refs'] : names;
      const options = result === 'any' ? {} : { result };
      const program = compileCel(text, known, options);
      checkTypes(text, known, schemas);
      return { program, reads: readsOf(program, variables) };
    } catch (error) {
      if (!(error instanceof CelError)) throw error;
      problems.push({ reason: 'InvalidExpression', where, message: error.message });
    }
    return undefined;
  };
  for (const [index, { name, expression }] of (given.variables ?? []).entries()) {
    const where = `spec.variables[${index}]`;
    if (variables.some((other) => other.name === name)) {
      problems.push({
        reason: 'InvalidPolicy',
        where: `${where}.name`,
        message: `there are two variables ${name}`,
      });
    }
    const compiled = compile(expression, `${where}.expression`, 'any', { refs: true });
    if (compiled !== undefined) variables.push({ name, expression: compiled });
  }
  return { compile, variables };
}

/** @throws CelError if the expression type-checks against none of the schemas */
function checkTypes(text: string, names: readonly string[], schemas: readonly JsonObject[]): void {
  let first: CelError | undefined;
  for (const schema of schemas) {
    const typed = ['object', 'oldObject'];
    try {
      compileCel(
        text,
        Object.fromEntries(names.map((name) => [name, typed.includes(name) ? { schema } : 'dyn'])),
      );
      return;
    } catch (error) {
      if (!(error instanceof CelError)) throw error;
      first ??= error;
    }
  }
  if (first !== undefined) throw first;
}

/** Includes everything that earlier variables read: which of them the expression uses is known only at run time. */
function readsOf({ names }: CelProgram, variables: readonly CompiledVariable[]): Reads {
  const inherited = names.has('variables') ? variables.map(({ expression }) => expression.reads) : [];
  const reads = (name: keyof Reads) => names.has(name) || inherited.some((one) => one[name]);
  return {
    oldObject: reads('oldObject'),
    request: reads('request'),
    namespaceObject: reads('namespaceObject'),
    params: reads('params'),
    refs: reads('refs'),
  };
}
