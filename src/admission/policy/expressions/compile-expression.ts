import type { AdmissionPolicySpec } from '../../../api/admission-policy.ts';
import { compileCel, CelError, type CelProgram } from '../../../cel/cel.ts';
import type { CompiledExpression, CompiledVariable, Reads } from './expression.ts';
import type { JsonObject } from '../../../json/json.ts';
import type { Report } from '../problem.ts';

/** Compiles an expression of a policy. Undefined if there is none, or if it is invalid, with a problem. */
export type CompileExpression = (
  text: string | undefined,
  where: string,
  result: 'bool' | 'string' | 'any',
  /** Whether the expression may use `refs`; defaults and mutations may not. Default: true. */
  options?: { readonly refs: boolean },
) => CompiledExpression | undefined;

/** Names that every expression may use. */
const NAMES = ['object', 'oldObject', 'request', 'namespaceObject', 'variables'] as const;

/**
 * @param schemas the known schemas of the governed kinds: an expression must type-check against at least one of them
 */
export function createExpressionCompiler(
  { variables: given = [], params }: Pick<AdmissionPolicySpec, 'variables' | 'params'>,
  schemas: readonly JsonObject[],
  report: Report,
): { readonly compile: CompileExpression; readonly variables: readonly CompiledVariable[] } {
  const names = params === undefined ? NAMES : [...NAMES, 'params'];
  const variables: CompiledVariable[] = [];
  const compile: CompileExpression = (text, where, result, { refs } = { refs: true }) => {
    if (text === undefined) return undefined;
    try {
      const known = refs ? [...names, 'refs'] : names;
      const program = compileCel(text, known, result === 'any' ? {} : { result });
      checkTypes(text, known, schemas);
      return { program, reads: readsOf(program, variables) };
    } catch (error) {
      if (!(error instanceof CelError)) throw error;
      report(where, error.message, 'InvalidExpression');
      return undefined;
    }
  };
  for (const [index, { name, expression }] of given.entries()) {
    const where = `spec.variables[${index}]`;
    if (variables.some((other) => other.name === name))
      report(`${where}.name`, `there are two variables ${name}`);
    const compiled = compile(expression, `${where}.expression`, 'any');
    if (compiled !== undefined) variables.push({ name, expression: compiled });
  }
  return { compile, variables };
}

/** @throws CelError if the expression type-checks against none of the schemas */
function checkTypes(text: string, names: readonly string[], schemas: readonly JsonObject[]): void {
  let first: CelError | undefined;
  for (const schema of schemas) {
    const isTyped = (name: string) => name === 'object' || name === 'oldObject';
    try {
      compileCel(text, Object.fromEntries(names.map((name) => [name, isTyped(name) ? { schema } : 'dyn'])));
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
