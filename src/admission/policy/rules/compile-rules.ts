import type { AdmissionPolicySpec } from '../../../api/admission-policy.ts';
import type { ExpressionCompiler } from '../expressions/compile-expression.ts';
import { tryPath, type Problem } from '../problem.ts';
import type { CompiledAuditAnnotation, CompiledRule, CompiledWarning } from '../compiled-policy.ts';
import { RESERVED_AUDIT_KEYS } from '../../review/decision.ts';

const WITH_REFS = { refs: true } as const;

/** Compiles the rules and reports their problems. */
export function compileRules(
  { validate }: AdmissionPolicySpec,
  { compile }: ExpressionCompiler,
  problems: Problem[],
): readonly CompiledRule[] {
  return (validate?.rules ?? []).flatMap((rule, index): readonly CompiledRule[] => {
    const where = `spec.validate.rules[${index}]`;
    const { name = `rules[${index}]`, message, reason, fieldPath } = rule;
    const expression = compile(rule.expression, `${where}.expression`, 'bool', WITH_REFS);
    const messageExpression =
      rule.messageExpression === undefined
        ? undefined
        : compile(rule.messageExpression, `${where}.messageExpression`, 'string', WITH_REFS);
    const field =
      fieldPath === undefined ? undefined : tryPath(fieldPath, `${where}.fieldPath`, problems)?.text;
    if (expression === undefined) return [];
    return [{ name, expression, message, messageExpression, reason, field }];
  });
}

/** Compiles the warnings and reports their problems. */
export function compileWarnings(
  { warnings = [] }: AdmissionPolicySpec,
  { compile }: ExpressionCompiler,
  problems: Problem[],
): readonly CompiledWarning[] {
  return warnings.map((warning, index) => {
    const where = `spec.warnings[${index}]`;
    if ((warning.message === undefined) === (warning.messageExpression === undefined)) {
      problems.push({ reason: 'InvalidPolicy', where, message: 'write either message or messageExpression' });
    }
    return {
      condition:
        warning.condition === undefined
          ? undefined
          : compile(warning.condition, `${where}.condition`, 'bool', WITH_REFS),
      message: warning.message,
      messageExpression:
        warning.messageExpression === undefined
          ? undefined
          : compile(warning.messageExpression, `${where}.messageExpression`, 'string', WITH_REFS),
    };
  });
}

/** Compiles the audit annotations and reports their problems. */
export function compileAuditAnnotations(
  { auditAnnotations = [] }: AdmissionPolicySpec,
  { compile }: ExpressionCompiler,
  problems: Problem[],
): readonly CompiledAuditAnnotation[] {
  return auditAnnotations.flatMap(({ key, valueExpression }, index): readonly CompiledAuditAnnotation[] => {
    const where = `spec.auditAnnotations[${index}]`;
    if (RESERVED_AUDIT_KEYS.some((reserved) => reserved === key)) {
      const message = `${key} is written by Gatehouse itself: choose another key`;
      problems.push({ reason: 'InvalidPolicy', where: `${where}.key`, message });
    }
    const value = compile(valueExpression, `${where}.valueExpression`, 'any', WITH_REFS);
    return value === undefined ? [] : [{ key, value }];
  });
}
