import type { AdmissionPolicySpec } from '../../../api/admission-policy.ts';
import { compileCel, CelError, type CelProgram } from '../../../cel/cel.ts';
import { ADMISSION_VARIABLES } from '../../../cel/match-condition.ts';
import type { CompiledExpression, CompiledVariable, Reads } from './expression.ts';
import type { JsonObject } from '../../../json/json.ts';
import type { Report } from '../problem.ts';
import { checkFields, type Declared } from './check-fields.ts';
import { createTypeCheck } from './check-types.ts';
import { explainCel } from './explain-cel.ts';
import { allReads } from './cluster-reads.ts';

/** Compiles an expression of a policy. Undefined if there is none, or if it is invalid, with a problem. */
export type CompileExpression = (
  text: string | undefined,
  where: string,
  result: 'bool' | 'string' | 'any',
  /**
   * Whether the expression may use `refs`, also through variables, and `authorizer`; defaults and mutations may not.
   * Default: true. As in the API server, message expressions use `authorizer` through variables only.
   */
  options?: { readonly refs: boolean; readonly authorizer?: boolean },
) => CompiledExpression | undefined;

/** Names that every expression may use. */
const NAMES = ['object', 'oldObject', 'request', 'namespaceObject', 'variables'] as const;
/** Names of those that may ask what users may do. */
const AUTHORIZER = ['authorizer', 'authorizer.requestResource'] as const;

/**
 * @param schemas the known schemas of the governed kinds: an expression must type-check against at least one of them
 */
export function createExpressionCompiler(
  {
    variables: given = [],
    params,
    validate = {},
  }: Pick<AdmissionPolicySpec, 'variables' | 'params' | 'validate'>,
  schemas: readonly JsonObject[] | undefined,
  report: Report,
): { readonly compile: CompileExpression; readonly variables: readonly CompiledVariable[] } {
  const names = params === undefined ? NAMES : [...NAMES, 'params'];
  const declared: Declared = {
    variables: given.map(({ name }) => name),
    references: (validate.references ?? []).map(({ name }) => name),
  };
  const variables: CompiledVariable[] = [];
  /** The number of variables that the next expression may use. */
  let visible = 0;
  const types = createTypeCheck(schemas);
  const compile: CompileExpression = (text, where, result, { refs, authorizer = refs } = { refs: true }) => {
    if (text === undefined) return undefined;
    const known = [...names, ...(refs ? ['refs'] : []), ...(authorizer ? AUTHORIZER : [])];
    try {
      const program = compileCel(text, typesOf(known), result === 'any' ? {} : { result });
      checkFields(program, declared, visible);
      types.check(text, known, result);
      const reads = readsOf(program, variables, declared);
      if (!refs && reads.refs.size > 0) throw new CelError(READS_TARGETS);
      if (!refs && reads.authorizer) throw new CelError(ASKS);
      return { program, reads };
    } catch (error) {
      if (!(error instanceof CelError)) throw error;
      const { message, place } = explainCel(error, text, { names: known, ...declared });
      report(where, message, error.unknown?.kind === 'field' ? 'UnknownField' : 'InvalidExpression', place);
      return undefined;
    }
  };
  for (const [index, { name, expression }] of given.entries()) {
    const where = `spec.variables[${index}]`;
    if (declared.variables.indexOf(name) < index) report(`${where}.name`, `there are two variables ${name}`);
    const compiled = compile(expression, `${where}.expression`, 'any');
    if (compiled !== undefined) variables.push({ name, expression: compiled });
    types.declare(name, expression, [...names, 'refs', ...AUTHORIZER]);
    visible += 1;
  }
  return { compile, variables };
}

/** `authorizer` is no value, so its type decides which functions it has. */
const typesOf = (names: readonly string[]) =>
  Object.fromEntries(
    names.map((name) => {
      const known = name.startsWith('authorizer') ? ADMISSION_VARIABLES[name] : undefined;
      return [name, known ?? 'dyn'];
    }),
  );

const ASKS =
  'uses a variable that asks the authorizer: defaults and mutations cannot, because only checks wait for an answer';

const READS_TARGETS =
  'uses a variable that reads refs: defaults and mutations cannot read targets, because they run before references are checked';

/** What the expression reads itself, and through the variables that it uses. */
function readsOf(
  { reads }: CelProgram,
  variables: readonly CompiledVariable[],
  { references }: Declared,
): Reads {
  const fields = reads.get('variables');
  const isUsed = ({ name }: CompiledVariable) => fields === 'all' || fields?.has(name) === true;
  const targets = reads.get('refs') ?? [];
  const own: Reads = {
    oldObject: reads.has('oldObject'),
    request: reads.has('request'),
    authorizer: reads.has('authorizer'),
    namespaceObject: reads.has('namespaceObject'),
    params: reads.has('params'),
    refs: new Set(targets === 'all' ? references : targets),
  };
  return allReads([own, ...variables.filter(isUsed).map(({ expression }) => expression.reads)]);
}
