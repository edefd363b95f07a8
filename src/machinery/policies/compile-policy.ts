import { CelError, compileCel, type CelProgram, type CelVariableType } from '../../cel/cel.ts';
import { MUTATION_MESSAGES, NO_MESSAGES } from '../../cel/compile/compiler.ts';
import { DYN, type CelType } from '../../cel/types/type.ts';
import { ADMISSION_VARIABLES, NAMESPACE_OBJECT } from '../../cel/match-condition.ts';
import type { JsonObject } from '../../json/json.ts';
import { optionalText, record, records, text } from '../fields.ts';

export interface Expression {
  readonly text: string;
  readonly path: string;
  readonly program: CelProgram | CelError;
}

export interface Variable {
  readonly name: string;
  readonly expression: Expression;
}

export interface Validation {
  readonly expression: Expression;
  readonly message: string;
  readonly messageExpression: Expression | undefined;
  readonly reason: string;
}

export interface Mutation {
  readonly patchType: 'ApplyConfiguration' | 'JSONPatch';
  readonly expression: Expression;
}

export type PolicyExpressions = ReturnType<typeof compilePolicy>;

type Variables = Readonly<Record<string, CelVariableType>>;

export function compilePolicy(spec: JsonObject, types: Variables = {}) {
  // Without a paramKind there is no such variable.
  const params: Variables = record(spec, 'paramKind') === undefined ? {} : { params: 'dyn' };
  const base: Variables = { ...ADMISSION_VARIABLES, ...params, namespaceObject: NAMESPACE_OBJECT, ...types };
  const fields: Record<string, CelVariableType> = {};
  const all = (): Variables => ({ ...base, variables: { fields: { ...fields } } });
  const variables = records(spec, 'variables').map((variable, index): Variable => {
    const name = text(variable, 'name');
    const at = `spec.variables[${index}].expression`;
    const expression = compile(text(variable, 'expression'), at, all(), undefined);
    fields[name] =
      expression.program instanceof CelError
        ? 'dyn'
        : { result: { resultType: declared(expression.program.resultType) } };
    return { name, expression };
  });
  const named = all();
  return {
    variables,
    conditions: records(spec, 'matchConditions').map((condition, index) =>
      compile(text(condition, 'expression'), `spec.matchConditions[${index}].expression`, base, 'bool'),
    ),
    validations: records(spec, 'validations').map((validation, index): Validation => {
      const at = `spec.validations[${index}]`;
      const message = optionalText(validation, 'messageExpression');
      return {
        expression: compile(text(validation, 'expression'), `${at}.expression`, named, 'bool'),
        message: text(validation, 'message'),
        messageExpression:
          message === undefined
            ? undefined
            : compile(message, `${at}.messageExpression`, withoutAuthorizer(named), 'string'),
        reason: text(validation, 'reason') || 'Invalid',
      };
    }),
    auditAnnotations: records(spec, 'auditAnnotations').map((annotation, index) => ({
      key: text(annotation, 'key'),
      expression: compile(
        text(annotation, 'valueExpression'),
        `spec.auditAnnotations[${index}].valueExpression`,
        named,
        'string or null',
      ),
    })),
    mutations: mutationsOf(spec, named),
  };
}

/** The API server declares a variable of another type as `dyn`, also an optional. */
function declared(type: CelType): CelType {
  if (type.kind === 'named') return DECLARABLE.has(type.name) ? type : DYN;
  if (type.kind !== 'list' && type.kind !== 'map') return DYN;
  return { ...type, parameters: type.parameters.map(declared) };
}

const DECLARABLE = new Set([
  ...['bool', 'bytes', 'double', 'duration', 'int', 'null', 'string', 'timestamp', 'uint'],
]);

const BODIES = {
  ApplyConfiguration: { field: 'applyConfiguration', result: 'Object' },
  JSONPatch: { field: 'jsonPatch', result: 'list(JSONPatch)' },
} as const;

function mutationsOf(spec: JsonObject, variables: Variables): readonly Mutation[] {
  return records(spec, 'mutations').flatMap((mutation, index): readonly Mutation[] => {
    const patchType = text(mutation, 'patchType');
    if (patchType !== 'ApplyConfiguration' && patchType !== 'JSONPatch') return [];
    const { field, result } = BODIES[patchType];
    const body = record(mutation, field);
    if (body === undefined) return [];
    const at = `spec.mutations[${index}].${field}.expression`;
    return [{ patchType, expression: compile(text(body, 'expression'), at, variables, result) }];
  });
}

/** The API server offers no authorizer to message expressions. */
const withoutAuthorizer = (variables: Variables): Variables =>
  Object.fromEntries(Object.entries(variables).filter(([name]) => !name.startsWith('authorizer')));

const RESULTS = {
  bool: ['bool'],
  string: ['string'],
  'string or null': ['string', 'null_type'],
  Object: ['Object'],
  'list(JSONPatch)': ['list(JSONPatch)'],
} satisfies Readonly<Record<string, readonly string[]>>;

/** As the API server does: a result of type `dyn` is neither a `bool` nor a `string`. */
function compile(
  source: string,
  path: string,
  variables: Variables,
  result: keyof typeof RESULTS | undefined,
): Expression {
  const trimmed = source.trim();
  try {
    const program = compileCel(trimmed, variables, {
      uniformLiterals: true,
      messages: path.startsWith('spec.mutations') ? MUTATION_MESSAGES : NO_MESSAGES,
    });
    const type = program.type === 'null' ? 'null_type' : program.type;
    const allowed = result === undefined ? [type] : RESULTS[result];
    if (!allowed.includes(type)) {
      const wanted = allowed.length === 1 ? allowed.join() : `one of [${allowed.join(' ')}]`;
      throw new CelError(`must evaluate to ${wanted} but got ${type}`);
    }
    return { text: trimmed, path, program };
  } catch (error) {
    if (!(error instanceof CelError)) throw error;
    return { text: trimmed, path, program: error };
  }
}
