/** Warnings and audit annotations. The API server writes them itself, under the name of the generated policy. */
import type { CompiledAuditAnnotation, CompiledPolicy, CompiledWarning } from '../policy/compiled-policy.ts';
import type { CompiledExpression } from '../policy/expressions/expression.ts';
import { inWebhook, type NativeCheck } from './native-check.ts';
import { expressionProblem } from './native-rules.ts';

export const noticeChecks = (policy: CompiledPolicy): readonly NativeCheck[] => [
  ...(policy.warnings.length === 0 ? [] : [warningsCheck(policy)]),
  ...policy.auditAnnotations.map((annotation) => annotationCheck(policy, annotation)),
];

/** All warnings of a policy are one check. */
function warningsCheck(policy: CompiledPolicy): NativeCheck {
  const problems = policy.warnings.map((warning) => warningProblem(policy, warning));
  const index = problems.findIndex((problem) => problem !== undefined);
  const problem = problems[index];
  if (problem !== undefined) return inWebhook('warnings', `of warnings[${index}]: ${problem}`);
  const validations = policy.warnings.map(({ condition, message = '' }) => ({
    expression: condition === undefined ? 'false' : `!((${condition.program.expression}\n) == true)`,
    message,
    reason: 'Invalid' as const,
  }));
  return { check: 'warnings', by: 'APIServer', part: 'notices', validations };
}

function warningProblem(
  policy: CompiledPolicy,
  { condition, message = '', messageExpression }: CompiledWarning,
): string | undefined {
  if (messageExpression !== undefined)
    return 'its messageExpression can make a text that the API server replaces, such as an empty one';
  if (message === '' || message.includes('\n') || message !== message.trim())
    return 'its message is blank, has a line break, or spaces around it';
  return noticeProblem(policy, condition === undefined ? [] : [condition]);
}

function annotationCheck(policy: CompiledPolicy, { key, value }: CompiledAuditAnnotation): NativeCheck {
  const check = `audit annotation ${key}`;
  const problem = noticeProblem(policy, [value]);
  if (problem !== undefined) return inWebhook(check, problem);
  const { type, expression } = value.program;
  if (type !== 'string' && type !== 'null')
    return inWebhook(
      check,
      `its type is ${type}, and the API server accepts string and null: write string(…)`,
    );
  if (Buffer.byteLength(expression) > LONGEST_EXPRESSION)
    return inWebhook(check, `its expression has more than ${LONGEST_EXPRESSION} bytes`);
  const annotation = { key, valueExpression: expression };
  return { check, by: 'APIServer', part: 'notices', validations: [], auditAnnotations: [annotation] };
}

/** The limit of the API server. */
const LONGEST_EXPRESSION = 5 * 1024;

function noticeProblem(policy: CompiledPolicy, parts: readonly CompiledExpression[]): string | undefined {
  if (parts.some(({ reads }) => reads.params)) return 'it reads params';
  return expressionProblem(policy, parts);
}
