import { CelError, type CelProgram } from '../../../cel/cel.ts';
import type { Cause } from '../../failure.ts';
import { invalidIf, invalidValue, notAmong, requiredValue, when } from '../causes.ts';
import { compileRule } from './rules.ts';
import { type Schema, type ValidationRule, furtherSchema, property } from '../schema.ts';

const RULES = 'x-kubernetes-validations';
const REASONS = ['FieldValueDuplicate', 'FieldValueForbidden', 'FieldValueInvalid', 'FieldValueRequired'];
const LONGEST_MESSAGE = 2048;

const hasNewline = (text: string) => /[\n\r]/.test(text);

/** The problems of the rules at one schema, apart from their expressions. */
export function ruleTextProblems(schema: Schema, path: string): readonly Cause[] {
  return (schema[RULES] ?? []).flatMap((rule, index) => ofText(rule, schema, `${path}.${RULES}[${index}]`));
}

function ofText(rule: ValidationRule, schema: Schema, path: string): readonly Cause[] {
  const { messageExpression = '', reason } = rule;
  return [
    ...ofRuleAndMessage(rule, path),
    ...when(
      messageExpression !== '' && messageExpression.trim() === '',
      requiredValue(`${path}.messageExpression`, 'messageExpression must be non-empty if specified'),
    ),
    ...(reason === undefined ? [] : notAmong(`${path}.reason`, reason, REASONS)),
    ...ofFieldPath(rule.fieldPath ?? '', schema, `${path}.fieldPath`),
  ];
}

function ofRuleAndMessage({ rule, message = '' }: ValidationRule, path: string): readonly Cause[] {
  const field = `${path}.message`;
  if (rule.trim() === '') return [requiredValue(`${path}.rule`, 'rule is not specified')];
  if (message !== '' && message.trim() === '') {
    return [invalidValue(field, message, 'message must be non-empty if specified')];
  }
  if (message.length > LONGEST_MESSAGE) {
    const shown = `${message.slice(0, 10)}...`;
    return [
      invalidValue(field, shown, `message must have a maximum length of ${LONGEST_MESSAGE} characters`),
    ];
  }
  if (hasNewline(message.trim())) {
    return [invalidValue(field, message, 'message must not contain line breaks')];
  }
  if (hasNewline(rule.trim()) && message.trim() === '') {
    return [requiredValue(field, 'message must be specified if rule contains line breaks')];
  }
  return [];
}

function ofFieldPath(text: string, schema: Schema, field: string): readonly Cause[] {
  if (text === '') return [];
  const problem = (detail: string) => [invalidValue(field, text, detail)];
  if (text.trim() === '') return problem('fieldPath must be non-empty if specified');
  if (hasNewline(text)) return problem('fieldPath must not contain line breaks');
  return leadsSomewhere(text.trim(), schema) ? [] : problem('fieldPath must be a valid path');
}

const STEP = /\.([^.[\]]+)|\['((?:[^'\\]|\\.)*)'\]/y;

/** Whether a path such as `.spec.items` or `.spec['a.b']` leads to a declared field. */
function leadsSomewhere(text: string, schema: Schema): boolean {
  let at: Schema | undefined = schema;
  STEP.lastIndex = 0;
  while (STEP.lastIndex < text.length && at !== undefined) {
    const step = STEP.exec(text);
    if (step === null) return false;
    const name = step[1] ?? (step[2] ?? '').replaceAll(/\\(.)/g, '$1');
    at = at.properties === undefined ? furtherSchema(at) : property(at, name);
  }
  return at !== undefined;
}

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

/** The reason why an expression does not compile, in the API server's words. */
export function celProblem(error: unknown): string {
  if (!(error instanceof CelError)) throw error;
  return `compilation failed: ${error.message}`;
}
