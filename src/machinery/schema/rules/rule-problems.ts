import { CelError, type CelProgram } from '../../../cel/cel.ts';
import type { Cause } from '../../failure.ts';
import { invalidIf, invalidValue } from '../causes.ts';
import { compileRule } from './rules.ts';
import { type Schema, type ValidationRule, furtherSchema } from '../schema.ts';

const RULES = 'x-kubernetes-validations';
/** Rules that do not compile, or that use `oldSelf` where items cannot be correlated with old items. */
export function ruleProblems(schema: Schema, path: string, uncorrelatable?: string): readonly Cause[] {
  const { items, properties = {} } = schema;
  const further = furtherSchema(schema);
  const inMap = schema['x-kubernetes-map-type'] === 'atomic' ? (uncorrelatable ?? path) : uncorrelatable;
  const inList = schema['x-kubernetes-list-type'] === 'map' ? uncorrelatable : (uncorrelatable ?? path);
  return [
    ...(schema[RULES] ?? []).flatMap((rule, index) =>
      ofExpressions(rule, `${path}.${RULES}[${index}]`, uncorrelatable),
    ),
    ...Object.entries(properties).flatMap(([name, child]) =>
      ruleProblems(child, `${path}.properties[${name}]`, inMap),
    ),
    ...(further === undefined ? [] : ruleProblems(further, `${path}.additionalProperties`, uncorrelatable)),
    ...(items === undefined ? [] : ruleProblems(items, `${path}.items`, inList)),
  ];
}

function ofExpressions(
  rule: ValidationRule,
  path: string,
  uncorrelatable: string | undefined,
): readonly Cause[] {
  const whole = goRule(rule);
  const program = compileRule(rule.rule);
  const message = rule.messageExpression === undefined ? undefined : compileRule(rule.messageExpression);
  return [
    ...invalidIf(
      `${path}.rule`,
      whole,
      expressionProblem(program, 'bool', 'cel expression must evaluate to a bool'),
    ),
    ...invalidIf(
      `${path}.messageExpression`,
      whole,
      expressionProblem(message, 'string', 'messageExpression must evaluate to a string'),
    ),
    ...(program instanceof CelError ? [] : ofOldSelf(rule, program, path, uncorrelatable)),
  ];
}

/** The way Go prints its internal type, which does not use JSON names. */
const goRule = (rule: ValidationRule) => ({
  Rule: rule.rule,
  Message: rule.message ?? '',
  MessageExpression: rule.messageExpression ?? '',
  Reason: rule.reason ?? null,
  FieldPath: rule.fieldPath ?? '',
  OptionalOldSelf: rule.optionalOldSelf ?? null,
});

function expressionProblem(
  program: CelProgram | CelError | undefined,
  type: string,
  detail: string,
): string | undefined {
  if (program === undefined) return undefined;
  if (program instanceof CelError) return celProblem(program);
  return program.type === type || program.type === 'dyn' ? undefined : detail;
}

function ofOldSelf(
  rule: ValidationRule,
  program: CelProgram,
  path: string,
  uncorrelatable: string | undefined,
): readonly Cause[] {
  if (program.names.has('oldSelf')) {
    if (uncorrelatable === undefined) return [];
    const detail = `oldSelf cannot be used on the uncorrelatable portion of the schema within ${uncorrelatable}`;
    return [invalidValue(`${path}.rule`, rule.rule, detail)];
  }
  if (rule.optionalOldSelf === undefined) return [];
  const detail = 'may not be set if oldSelf is not used in rule';
  return [invalidValue(`${path}.optionalOldSelf`, rule.optionalOldSelf, detail)];
}

export function celProblem(error: unknown): string {
  if (!(error instanceof CelError)) throw error;
  return `compilation failed: ${error.message}`;
}
