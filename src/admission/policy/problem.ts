import { InvalidPath, parsePath, type FieldPath } from '../../json/field-path.ts';

/** The reasons for which a policy is not enforced, as in its `Ready` condition. The most severe comes first. */
export const REJECTION_REASONS = [
  'LockoutScope',
  'InvalidPath',
  'InvalidExpression',
  'InvalidSchema',
  'InvalidPolicy',
  'Unsupported',
  /**
   * Can resolve without a change to the policy: the CustomResourceDefinition of the target may not be installed yet.
   */
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

/** Parses a path. If the text is invalid, adds a problem and returns undefined. */
export function tryPath(text: string, where: string, problems: Problem[]): FieldPath | undefined {
  try {
    return parsePath(text);
  } catch (error) {
    if (!(error instanceof InvalidPath)) throw error;
    problems.push(pathProblem(where, error.message));
    return undefined;
  }
}

export function pathProblem(where: string, message: string): Problem {
  return { reason: 'InvalidPath', where, message };
}
