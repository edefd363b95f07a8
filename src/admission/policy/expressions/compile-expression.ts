import type { AdmissionPolicySpec } from '../../../api/admission-policy.ts';
import {
  compileCel,
  CelError,
  type CelProgram,
  type CelVariableType,
  onCelError,
  readsField,
} from '../../../cel/cel.ts';
import { ADMISSION_VARIABLES } from '../../../cel/match-condition.ts';
import { allReads, type CompiledExpression, type CompiledVariable, type Reads } from './expression.ts';
import type { JsonObject } from '../../../json/json.ts';
import type { Report } from '../problem.ts';
import { explainCel } from './explain-cel.ts';
import { nearest } from '../../../cel/compile/compile-select.ts';
import { quote } from '../../../json/printable.ts';

/** Undefined if there is no expression, or if it is invalid and a problem was reported. */
export type CompileExpression = (
  text: string | undefined,
  where: string,
  result: 'bool' | 'string' | 'any',
  /** Whether it may use `refs` and `authorizer`, even through variables. Default: true. */
  options?: { readonly refs: boolean; readonly authorizer?: boolean },
) => CompiledExpression | undefined;

export const NAMES = ['object', 'oldObject', 'request', 'namespaceObject', 'variables'] as const;

export const AUTHORIZER = ['authorizer', 'authorizer.requestResource'] as const;

/** @param schemas an expression must type-check against at least one of them */
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
    const compiled = () => {
      const program = compileCel(text, typesOf(known), result === 'any' ? {} : { result });
      checkFields(program, declared, visible);
      types.check(text, known, result);
      const reads = readsOf(program, variables, declared);
      if (!refs && reads.refs.size > 0) throw new CelError(READS_TARGETS);
      if (!refs && reads.authorizer) throw new CelError(ASKS);
      return { program, reads };
    };
    return onCelError(compiled, (error) => {
      const { message, place } = explainCel(error, text, { names: known, ...declared });
      report(where, message, error.unknown?.kind === 'field' ? 'UnknownField' : 'InvalidExpression', place);
      return undefined;
    });
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

/** The type of `authorizer` decides which functions it has. */
export const typesOf = (names: readonly string[]) =>
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

function readsOf(
  program: CelProgram,
  variables: readonly CompiledVariable[],
  { references }: Declared,
): Reads {
  const { reads } = program;
  const isUsed = ({ name }: CompiledVariable) => readsField(program, 'variables', name);
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

interface Declared {
  readonly variables: readonly string[];
  readonly references: readonly string[];
}

/**
 * Otherwise an expression with a misspelt name would compile, and then refuse every request.
 * @param visible the number of variables that the expression may use: in a variable, only those before it
 */
function checkFields({ reads }: CelProgram, declared: Declared, visible: number): void {
  const variables = reads.get('variables') ?? [];
  if (variables === 'all')
    throw new CelError(
      'uses variables as a whole: write variables.<name>, so that Gatehouse knows which it reads',
    );
  const before = declared.variables.slice(0, visible);
  for (const name of variables) {
    if (before.includes(name)) continue;
    if (!declared.variables.includes(name))
      throw unknown('variables', name, before, 'declare it in spec.variables');
    throw new CelError(
      `variables.${name} is not declared before this variable: a variable can only use those above it in spec.variables`,
    );
  }
  const references = reads.get('refs') ?? [];
  if (references === 'all') return;
  for (const name of references) {
    if (!declared.references.includes(name))
      throw unknown('refs', name, declared.references, 'name a reference of spec.validate.references');
  }
}

function unknown(group: string, name: string, known: readonly string[], advice: string): CelError {
  const meant = nearest(name, known);
  const problem = `${group}[${quote(name)}] does not exist: ${advice}`;
  return new CelError(meant === undefined ? problem : `${problem}, or did you mean ${group}.${meant}?`);
}

/** Newer API servers may add fields to spec and status. */
const NAMESPACE: CelVariableType = {
  schema: {
    type: 'object',
    properties: {
      spec: { type: 'object', 'x-kubernetes-preserve-unknown-fields': true },
      status: { type: 'object', 'x-kubernetes-preserve-unknown-fields': true },
    },
  },
};

interface Typing {
  readonly object: CelVariableType;
  readonly variables: Record<string, CelVariableType>;
}

/**
 * Wrong only if it fits none of the schemas: a policy can govern several kinds and versions.
 * @param schemas empty if any is unknown; undefined: nothing is checked
 */
function createTypeCheck(schemas: readonly JsonObject[] | undefined) {
  const objects: readonly CelVariableType[] =
    schemas?.length === 0 ? ['dyn'] : (schemas ?? []).map((schema) => ({ schema }));
  const typings = objects.map((object): Typing => ({ object, variables: {} }));

  const programIn = (
    { object, variables }: Typing,
    text: string,
    names: readonly string[],
    result: string,
  ) => {
    const known: Readonly<Record<string, CelVariableType>> = {
      ...ADMISSION_VARIABLES,
      object,
      oldObject: object,
      namespaceObject: NAMESPACE,
      variables: { fields: variables },
    };
    const types = Object.fromEntries(names.map((name) => [name, known[name] ?? 'dyn']));
    return compileCel(text, types, { unconverted: true, ...(result === 'any' ? {} : { result }) });
  };

  return {
    /** @throws CelError if the expression type-checks against none of the schemas */
    check: (text: string, names: readonly string[], result: 'bool' | 'string' | 'any'): void => {
      const errors = typings.map((typing) =>
        onCelError(
          () => void programIn(typing, text, names, result),
          (error) => error,
        ),
      );
      const [first] = errors;
      if (first !== undefined && !errors.includes(undefined)) throw first;
    },
    /** Later expressions can use the variable with this type. */
    declare: (name: string, text: string, names: readonly string[]): void => {
      for (const typing of typings)
        typing.variables[name] = onCelError(
          () => ({ result: programIn(typing, text, names, 'any') }),
          () => 'dyn',
        );
    },
  };
}
