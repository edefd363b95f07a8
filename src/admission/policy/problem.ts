import { InvalidPath, parsePath, type FieldPath } from '../../json/field-path.ts';
import { normaliseSelector, type NormalSelector } from '../../json/label-selector.ts';
import { writes, type Operation } from '../review/request.ts';

/** The reasons for which a policy is not enforced, as in its `Ready` condition. The most severe comes first. */
export const REJECTION_REASONS = [
  'LockoutScope',
  'Unsupported',
  'InvalidPath',
  'InvalidExpression',
  'InvalidSchema',
  'InvalidPolicy',
  /** Can resolve without a change to the policy: the CustomResourceDefinition of the target may be missing. */
  'UnknownTarget',
] as const;

export type RejectionReason = (typeof REJECTION_REASONS)[number];

/** One thing that is wrong with a policy. */
export interface Problem {
  readonly reason: RejectionReason;
  /** e.g. `spec.defaults[0].path` */
  readonly where: string;
  /** What is wrong, and what the policy author has to write instead. */
  readonly message: string;
}

/** Adds a problem. The default reason is `InvalidPolicy`. */
export type Report = (where: string, message: string, reason?: RejectionReason) => void;

export function createReport(problems: Problem[]): Report {
  return (where, message, reason = 'InvalidPolicy') => void problems.push({ reason, where, message });
}

/** Parses a path. Undefined if the text is invalid, with a problem. */
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

/** Reports a part of the policy that would have no effect, because the policy matches no writes. */
export function requireWrites(
  { operations }: { readonly operations: readonly Operation[] },
  consequence: string,
  report: Report,
): void {
  if (!operations.some(writes))
    report('spec.match.operations', `has neither CREATE nor UPDATE, so ${consequence}`);
}
