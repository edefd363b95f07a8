import { CelError, compileCel, type CelProgram, type CelVariableType } from '../../../cel/cel.ts';
import { ADMISSION_VARIABLES } from '../../../cel/match-condition.ts';
import type { JsonObject } from '../../../json/json.ts';
import { optionalText, record, records, text } from '../fields.ts';

/** An expression of a ValidatingAdmissionPolicy; an error if it does not compile. */
export interface Expression {
  readonly text: string;
  /** The path in the policy. */
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

export interface AuditAnnotation {
  readonly key: string;
  readonly expression: Expression;
}

export interface PolicyExpressions {
  readonly conditions: readonly Expression[];
  readonly variables: readonly Variable[];
  readonly validations: readonly Validation[];
  readonly auditAnnotations: readonly AuditAnnotation[];
}

type Variables = Readonly<Record<string, CelVariableType>>;

/**
 * Compiles the expressions in the `spec` of a policy. A variable can use those before it.
 *
 * @param types of `object`, `oldObject` and `params`, where they are known
 */
export function compilePolicy(spec: JsonObject, types: Variables = {}): PolicyExpressions {
  // Without a paramKind there is no such variable.
  const params: Variables = record(spec, 'paramKind') === undefined ? {} : { params: 'dyn' };
  const base: Variables = { ...ADMISSION_VARIABLES, ...params, namespaceObject: 'dyn', ...types };
  const fields: Record<string, CelVariableType> = {};
  const all = (): Variables => ({ ...base, variables: { fields: { ...fields } } });
  const variables = records(spec, 'variables').map((variable, index): Variable => {
    const name = text(variable, 'name');
    const at = `spec.variables[${index}].expression`;
    const expression = compile(text(variable, 'expression'), at, all(), undefined);
    fields[name] = expression.program instanceof CelError ? 'dyn' : { result: expression.program };
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
        undefined,
      ),
    })),
  };
}

/** The API server offers no authorizer to message expressions. */
const withoutAuthorizer = (variables: Variables): Variables =>
  Object.fromEntries(Object.entries(variables).filter(([name]) => !name.startsWith('authorizer')));

/** As the API server does: a result of type `dyn` is neither a `bool` nor a `string`. */
function compile(
  source: string,
  path: string,
  variables: Variables,
  result: 'bool' | 'string' | undefined,
): Expression {
  const trimmed = source.trim();
  try {
    const program = compileCel(trimmed, variables, { uniformLiterals: true });
    if (result !== undefined && program.type !== result)
      throw new CelError(`must evaluate to ${result} but got ${program.type}`);
    return { text: trimmed, path, program };
  } catch (error) {
    if (!(error instanceof CelError)) throw error;
    return { text: trimmed, path, program: error };
  }
}
