import type { AdmissionPolicySpec } from '../../../api/admission-policy.ts';
import { type CelError, onCelError } from '../../../cel/cel.ts';
import { CelCostError } from '../../../cel/cel-error.ts';
import { trimSpace } from '../../../cel/library/text.ts';
import type {
  CompiledAuditAnnotation,
  CompiledPolicy,
  CompiledRule,
  CompiledWarning,
} from '../compiled-policy.ts';
import type { CompileExpression } from '../expressions/compile-expression.ts';
import type { CompiledExpression, Evaluate } from '../expressions/expression.ts';
import { type Bindings, type Evaluation, readsCluster } from '../expressions/bindings.ts';
import { type FoundReference, referenceKey } from '../references/read-references.ts';
import { paramsNotFound } from '../object-ref.ts';
import type { Exemption } from '../exceptions/exceptions.ts';
import { type Report, tryPath } from '../problem.ts';
import type { Violation } from '../violation.ts';
import { targetNotFound, type UnresolvedReference } from '../references/check-references.ts';
import { celToJson } from '../../../cel/values/cel-to-json.ts';
import { type AuditAnnotations, RESERVED_AUDIT_KEYS } from '../../review/decision.ts';
import { stringifyJson } from '../../../json/json.ts';
import { readsTheSame } from '../existing/existing.ts';
import { governedBefore } from '../match/object-scope.ts';
import type { AdmissionRequest } from '../../review/request.ts';
import { shorten } from '../../../json/printable.ts';

/** Like in the API server, messages cannot use `authorizer`. */
export const MESSAGE = { refs: true, authorizer: false } as const;

export function compileRules(
  { validate, match: { operations = [] } }: AdmissionPolicySpec,
  compile: CompileExpression,
  report: Report,
  isNew: boolean,
): readonly CompiledRule[] {
  return (validate?.rules ?? []).flatMap((rule, index): readonly CompiledRule[] => {
    const where = `spec.validate.rules[${index}]`;
    const { name = `rules[${index}]`, message, reason, fieldPath } = rule;
    const expression = compile(rule.expression, `${where}.expression`, 'bool');
    if (isNew && operations.includes('DELETE') && expression !== undefined)
      reportNoObject(expression, operations.length === 1, `${where}.expression`, report);
    const messageExpression = compile(
      rule.messageExpression,
      `${where}.messageExpression`,
      'string',
      MESSAGE,
    );
    const field =
      fieldPath === undefined ? undefined : tryPath(fieldPath, `${where}.fieldPath`, report)?.text;
    return expression === undefined ? [] : [{ name, expression, message, messageExpression, reason, field }];
  });
}

function reportNoObject(expression: CompiledExpression, onlyDelete: boolean, where: string, report: Report) {
  const { reads } = expression.program;
  if ((reads.get('object') ?? 'all') === 'all') return;
  const withoutObject: Evaluate = ({ program }) => program.evaluate({ object: null });
  // Whether other rules fail depends on the request.
  const fails = onlyDelete || (reads.size === 1 && attempt(withoutObject, expression).kind === 'failed');
  const advice = onlyDelete ? '' : ", or request.operation == 'DELETE' || …";
  if (fails)
    report(where, `reads object, which is null on DELETE: write oldObject${advice}`, 'InvalidExpression');
}

const CODES = { Unauthorized: 401, Forbidden: 403, Invalid: 422, RequestEntityTooLarge: 413 } as const;

/** Evaluates all rules, so that users see all violations together. A rule that fails is violated. */
export function checkRules(
  policy: CompiledPolicy,
  { missing }: Pick<Bindings, 'missing'>,
  { request, evaluate, awaits }: Evaluation,
  exemption: Exemption,
): readonly Violation[] {
  const violations: Violation[] = [];
  for (const rule of policy.rules) {
    const { reads } = rule.expression;
    if (exemption.covers('rules', rule.name)) continue;
    if (reads.params && missing.params !== undefined) {
      if (policy.params?.whenMissing === 'Allow') continue;
      const message = paramsNotFound(missing.params);
      violations.push(violation(policy, rule, message));
      continue;
    }
    const verdict = attempt(evaluate, rule.expression);
    if (verdict.kind === 'value' && verdict.value === true) continue;
    const targets = awaits(rule.expression);
    if (targets.length > 0 && isUntouched(policy, rule, request)) continue;
    if (verdict.kind === 'failed') {
      const message = failureOf(rule, verdict.error.message, targets);
      // Even under `failurePolicy: Ignore`: requesters can exceed the cost limit with a large object.
      const isUnfinished = verdict.error instanceof CelCostError;
      const more = isUnfinished ? { hasMore: true } : {};
      violations.push({ ...violation(policy, rule, message), awaits: targets, ...more });
    } else {
      const { reason } = rule;
      const refusal = reason === undefined ? {} : { refusal: { reason, code: CODES[reason] } };
      violations.push({ ...violation(policy, rule, messageOf(rule, evaluate)), awaits: targets, ...refusal });
    }
  }
  return violations;
}

/** Whether an update changes nothing that the rule reads. Then a target that has disappeared does not block it. */
function isUntouched(policy: CompiledPolicy, rule: CompiledRule, request: AdmissionRequest): boolean {
  const { operation, object } = request;
  const old = operation === 'UPDATE' ? governedBefore(policy, request) : undefined;
  if (old === undefined || object === undefined || !isAboutState(rule)) return false;
  return readsTheSame(policy, rule, old, object);
}

function failureOf(
  { expression }: CompiledRule,
  message: string,
  [awaited]: readonly FoundReference[],
): string {
  const why =
    awaited === undefined ? message : `refs.${awaited.reference.name} is absent: ${targetNotFound(awaited)}`;
  return `could not be evaluated: ${why} (${expression.program.expression})`;
}

/** Whether the rule reads only the stored state, so that it can be checked again at any time. */
export function isAboutState({ expression: { reads } }: CompiledRule): boolean {
  return !reads.oldObject && !reads.request && !reads.authorizer;
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

function messageOf(rule: CompiledRule, evaluate: Evaluate): string {
  const { messageExpression } = rule;
  const made = messageExpression === undefined ? undefined : attempt(evaluate, messageExpression);
  const text = made?.kind === 'value' && typeof made.value === 'string' ? trimSpace(made.value) : '';
  return isUsable(text) ? text : fixedMessage(rule);
}

/** The longest result of a messageExpression, in bytes: the API server allows 5 KiB, with the names around it. */
export const LONGEST_MADE_MESSAGE = 4096;

/** Line breaks, control and invisible characters. The API server omits warnings with some of them. */
export const UNPRINTABLE = String.raw`[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]`;

const isUsable = (text: string): boolean =>
  text !== '' && Buffer.byteLength(text) <= LONGEST_MADE_MESSAGE && !new RegExp(UNPRINTABLE, 'u').test(text);

export const fixedMessage = ({ message, expression }: CompiledRule): string =>
  message ?? `does not satisfy ${expression.program.expression.replace(/\s+/g, ' ')}`;

export function attempt(
  evaluate: Evaluate,
  expression: CompiledExpression,
):
  | { readonly kind: 'value'; readonly value: unknown }
  | { readonly kind: 'failed'; readonly error: CelError } {
  return onCelError(
    () => ({ kind: 'value', value: evaluate(expression) }),
    (error) => ({ kind: 'failed', error }),
  );
}

/**
 * Leaves out rules whose result depends on missing targets, if the decision about these references covers the rule.
 * @param refused refused, retried or reported @param deferred checked again later; so are rules about the state
 */
export function withoutAwaiting(
  violations: readonly Violation[],
  refused: readonly UnresolvedReference[],
  deferred: readonly UnresolvedReference[] = [],
): readonly Violation[] {
  if (refused.length + deferred.length === 0) return violations;
  const decided = new Set(refused.map(unresolvedKey));
  const later = new Set(deferred.map(unresolvedKey));
  return violations.filter(({ policy, awaits = [], deferrable }) => {
    const keys = awaits.map((one) => unresolvedKey({ ...one, policy }));
    const follows = keys.every((key) => decided.has(key) || (deferrable === 'rules' && later.has(key)));
    return keys.length === 0 || !follows;
  });
}

const unresolvedKey = (one: UnresolvedReference): string => `${one.policy.name} ${referenceKey(one)}`;

export function compileWarnings(
  { warnings = [] }: AdmissionPolicySpec,
  compile: CompileExpression,
  report: Report,
): readonly CompiledWarning[] {
  return warnings.map(({ condition, message, messageExpression }, index) => {
    const where = `spec.warnings[${index}]`;
    if ((message === undefined) === (messageExpression === undefined))
      report(where, 'write either message or messageExpression');
    return {
      condition: compile(condition, `${where}.condition`, 'bool'),
      message,
      messageExpression: compile(messageExpression, `${where}.messageExpression`, 'string', MESSAGE),
    };
  });
}

export function compileAuditAnnotations(
  { auditAnnotations = [] }: AdmissionPolicySpec,
  compile: CompileExpression,
  report: Report,
): readonly CompiledAuditAnnotation[] {
  return auditAnnotations.flatMap(({ key, valueExpression }, index) => {
    const where = `spec.auditAnnotations[${index}]`;
    if (RESERVED_AUDIT_KEYS.some((reserved) => reserved === key))
      report(`${where}.key`, `${key} is written by Gatehouse itself: choose another key`);
    const value = compile(valueExpression, `${where}.valueExpression`, 'any');
    return value === undefined ? [] : [{ key, value }];
  });
}

export interface Notices {
  readonly warnings: readonly string[];
  readonly auditAnnotations: AuditAnnotations;
  /** Expressions that failed. They do not deny the request. */
  readonly errors: readonly string[];
}

export const NO_NOTICES: Notices = { warnings: [], auditAnnotations: {}, errors: [] };

export const hasNoNotices = ({ warnings, auditAnnotations, errors }: Notices): boolean =>
  warnings.length + errors.length + Object.keys(auditAnnotations).length === 0;

const LONGEST_VALUE = 10 * 1024;

export function evaluateNotices(
  policy: CompiledPolicy,
  { missing }: Pick<Bindings, 'missing'>,
  evaluate: Evaluate,
): Notices {
  if (policy.warnings.length === 0 && policy.auditAnnotations.length === 0) return NO_NOTICES;
  const errors: string[] = [];
  const valueOf = (expression: CompiledExpression, where: string): unknown => {
    if (expression.reads.params && missing.params !== undefined) return undefined;
    const made = attempt(evaluate, expression);
    if (made.kind === 'value') return made.value;
    errors.push(`${policy.name}/${where} could not be evaluated: ${made.error.message}`);
    return undefined;
  };
  const warnings = policy.warnings.flatMap(({ condition, message, messageExpression }, index) => {
    const where = `warnings[${index}]`;
    if (condition !== undefined && valueOf(condition, where) !== true) return [];
    const text = messageExpression === undefined ? message : valueOf(messageExpression, where);
    return typeof text === 'string' && text !== '' ? [text] : [];
  });
  const auditAnnotations = policy.auditAnnotations.flatMap(({ key, value }): readonly [string, string][] => {
    const text = trimSpace(annotationText(valueOf(value, key)));
    return text === ''
      ? []
      : [[key, Buffer.byteLength(text) > LONGEST_VALUE ? shorten(text, LONGEST_VALUE) : text]];
  });
  return { warnings, auditAnnotations: Object.fromEntries(auditAnnotations), errors };
}

function annotationText(value: unknown): string {
  if (value === undefined || value === null) return '';
  if (typeof value === 'string') return value;
  return onCelError(
    () => stringifyJson(celToJson(value)),
    ({ message }) => `(${message})`,
  );
}
