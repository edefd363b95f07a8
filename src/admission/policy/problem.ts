import { InvalidPath, parsePath, type FieldPath } from '../../json/field-path.ts';
import { normaliseSelector, type NormalSelector } from '../../json/label-selector.ts';
import type { ExpressionPlace } from './expressions/explain-cel.ts';
import { writes, type Operation } from '../review/request.ts';

/** The reasons in the `Ready` condition, the most severe first. */
export const REJECTION_REASONS = [
  'LockoutScope',
  'Unsupported',
  'InvalidPath',
  'InvalidExpression',
  'InvalidSchema',
  'InvalidPolicy',
  /** The last two can resolve without a change to the policy: when a CustomResourceDefinition changes, or is created. */
  'UnknownField',
  'UnknownTarget',
] as const;

export type RejectionReason = (typeof REJECTION_REASONS)[number];

export interface Problem {
  readonly reason: RejectionReason;
  /** e.g. `spec.defaults[0].path` */
  readonly where: string;
  readonly message: string;
  readonly place?: ExpressionPlace | undefined;
}

export type Report = (
  where: string,
  message: string,
  reason?: RejectionReason,
  place?: ExpressionPlace,
) => void;

export function createReport(problems: Problem[]): Report {
  return (where, message, reason = 'InvalidPolicy', place) =>
    void problems.push({ reason, where, message, ...(place === undefined ? {} : { place }) });
}

/** The problem on one line, for readers who do not have the file. */
export function describeProblem({ where, message, place }: Omit<Problem, 'reason'>): string {
  if (place === undefined) return `${where}: ${message}`;
  return `${where} (line ${place.line}, column ${place.column}): ${message}`;
}

export const describeProblems = (problems: readonly Omit<Problem, 'reason'>[]): string =>
  problems.map(describeProblem).join('; ');

export function tryPath(text: string, where: string, report: Report): FieldPath | undefined {
  try {
    return parsePath(text);
  } catch (error) {
    if (!(error instanceof InvalidPath)) throw error;
    report(where, error.message, 'InvalidPath');
    return undefined;
  }
}

export function trySelector(given: unknown, where: string, report: Report): NormalSelector {
  const { selector, problems } = normaliseSelector(given, where);
  for (const problem of problems) report(problem.where, problem.message);
  return selector;
}

export function requireWrites(
  { operations }: { readonly operations: readonly Operation[] },
  consequence: string,
  report: Report,
): void {
  if (!operations.some(writes))
    report('spec.match.operations', `has neither CREATE nor UPDATE, so ${consequence}`);
}
