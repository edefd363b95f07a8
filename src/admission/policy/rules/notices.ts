import type { AdmissionPolicySpec } from '../../../api/admission-policy.ts';
import { CelError } from '../../../cel/cel.ts';
import { celToJson } from '../../../cel/values/cel-to-json.ts';
import type { CompiledAuditAnnotation, CompiledPolicy, CompiledWarning } from '../compiled-policy.ts';
import { RESERVED_AUDIT_KEYS, type AuditAnnotations } from '../../review/decision.ts';
import type { CompileExpression } from '../expressions/compile-expression.ts';
import type { CompiledExpression, Evaluate } from '../expressions/expression.ts';
import { stringifyJson } from '../../../json/json.ts';
import { shorten } from '../../../json/printable.ts';
import type { Bindings } from '../expressions/bindings.ts';
import type { Report } from '../problem.ts';
import { attempt, MESSAGE } from './rules.ts';

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
    const text = annotationText(valueOf(value, key)).trim();
    return text === ''
      ? []
      : [[key, Buffer.byteLength(text) > LONGEST_VALUE ? shorten(text, LONGEST_VALUE) : text]];
  });
  return { warnings, auditAnnotations: Object.fromEntries(auditAnnotations), errors };
}

function annotationText(value: unknown): string {
  if (value === undefined || value === null) return '';
  if (typeof value === 'string') return value;
  try {
    return stringifyJson(celToJson(value));
  } catch (error) {
    if (!(error instanceof CelError)) throw error;
    return `(${error.message})`;
  }
}
