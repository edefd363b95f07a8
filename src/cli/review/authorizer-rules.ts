/** Rules that ask the authorizer: only an API server can answer, so a review of files leaves them out and says so. */
import type { CompiledPolicy } from '../../admission/policy/compile.ts';
import type { CompiledExpression } from '../../admission/policy/expressions/expression.ts';

const asks = (expression: CompiledExpression | undefined): boolean => expression?.reads.authorizer === true;

/** The policy without the expressions that ask. */
export const withoutQuestions = (policy: CompiledPolicy): CompiledPolicy => ({
  ...policy,
  rules: policy.rules.filter(
    ({ expression, messageExpression }) => ![expression, messageExpression].some(asks),
  ),
  warnings: policy.warnings.filter(
    ({ condition, messageExpression }) => ![condition, messageExpression].some(asks),
  ),
  auditAnnotations: policy.auditAnnotations.filter(({ value }) => !asks(value)),
});

export const questionNotes = (policies: readonly CompiledPolicy[]): readonly string[] =>
  policies.flatMap((policy) => {
    const { rules } = withoutQuestions(policy);
    const left = policy.rules.filter((rule) => !rules.includes(rule)).map(({ name }) => name);
    if (left.length === 0) return [];
    const what = left.length === 1 ? `rule ${left.join()} is` : `rules ${left.join(', ')} are`;
    return [`AdmissionPolicy ${policy.name}: ${what} not reviewed: only an API server can answer authorizer`];
  });
