import { CelError } from '../../../cel/cel.ts';
import type { CompiledPolicy, CompiledRule } from '../compiled-policy.ts';
import type { CompiledExpression, Evaluate } from '../expressions/expression.ts';
import type { AdmissionRequest } from '../../review/request.ts';
import { readsCluster, type Bindings } from '../expressions/bindings.ts';
import { describeRef } from '../object-ref.ts';
import type { Exemption } from '../exceptions/exceptions.ts';
import { isBeingDeleted } from '../object-metadata.ts';
import type { Violation } from '../violation.ts';

export interface RuleFindings {
  readonly violations: readonly Violation[];
  /** Rules whose evaluation failed and that the failurePolicy ignores. */
  readonly errors: readonly string[];
}

/** The HTTP status for each reason, as in ValidatingAdmissionPolicy. */
const CODES = { Unauthorized: 401, Forbidden: 403, Invalid: 422, RequestEntityTooLarge: 413 } as const;

/** Evaluates all rules of a policy independently, so that users see all violations at once. */
export function checkRules(
  policy: CompiledPolicy,
  request: AdmissionRequest,
  { missing }: Pick<Bindings, 'missing'>,
  evaluate: Evaluate,
  exemption: Exemption,
): RuleFindings {
  const violations: Violation[] = [];
  const errors: string[] = [];
  for (const rule of policy.rules) {
    const { reads } = rule.expression;
    if (exemption.spares('rules', rule.name) || judgesTheLeaving(request, rule)) continue;
    // The check of the reference itself reports a missing target.
    if (reads.refs && missing.refs) continue;
    if (reads.params && missing.params !== undefined) {
      if (policy.params?.whenMissing === 'Allow') continue;
      const message = `there is no ${describeRef(missing.params)}, whose values it reads: create it`;
      violations.push(violation(policy, rule, message));
      continue;
    }
    const verdict = attempt(evaluate, rule.expression);
    if (verdict.kind === 'failed') {
      const message = `could not be evaluated: ${verdict.message} (${rule.expression.program.expression})`;
      if (policy.match.failurePolicy === 'Fail') violations.push(violation(policy, rule, message));
      else errors.push(`${policy.name}/${rule.name} ${message}`);
    } else if (verdict.value !== true) {
      violations.push({ ...violation(policy, rule, messageOf(rule, evaluate)), ...refusalOf(rule) });
    }
  }
  return { violations, errors };
}

/** An object that is being deleted only loses finalizers: a rule about its state would block that forever. */
function judgesTheLeaving({ operation, object }: AdmissionRequest, rule: CompiledRule): boolean {
  return operation === 'UPDATE' && object !== undefined && isBeingDeleted(object) && isAboutState(rule);
}

/** Whether the rule reads only the stored state. Gatehouse can check such a rule again at any time. */
function isAboutState({ expression: { reads } }: CompiledRule): boolean {
  return !reads.oldObject && !reads.request;
}

function violation(policy: CompiledPolicy, rule: CompiledRule, message: string): Violation {
  const named = rule.name.startsWith('rules[') ? message : `${message} (rule ${rule.name})`;
  return {
    policy,
    check: rule.name,
    field: rule.field ?? '',
    reason: 'FieldValueInvalid',
    message: named,
    readsCluster: readsCluster(rule.expression.reads),
    ...(isAboutState(rule) ? { deferrable: 'rules' } : {}),
  };
}

function refusalOf({ reason }: CompiledRule): Pick<Violation, 'refusal'> {
  return reason === undefined ? {} : { refusal: { reason, code: CODES[reason] } };
}

function messageOf({ expression, message, messageExpression }: CompiledRule, evaluate: Evaluate): string {
  const made = messageExpression === undefined ? undefined : attempt(evaluate, messageExpression);
  if (made?.kind === 'value' && typeof made.value === 'string' && made.value.trim() !== '') return made.value;
  return message ?? `does not satisfy ${expression.program.expression}`;
}

export type Attempt =
  { readonly kind: 'value'; readonly value: unknown } | { readonly kind: 'failed'; readonly message: string };

/** The value of the expression, or why its evaluation failed. */
export function attempt(evaluate: Evaluate, expression: CompiledExpression): Attempt {
  try {
    return { kind: 'value', value: evaluate(expression) };
  } catch (error) {
    if (!(error instanceof CelError)) throw error;
    return { kind: 'failed', message: error.message };
  }
}
