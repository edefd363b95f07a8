import { InvalidPath, parsePath, type FieldPath } from '../../json/field-path.ts';

/** Why a policy is not enforced, in one word for its `Ready` condition; the most severe first. */
export const REJECTION_REASONS = [
  'LockoutScope',
  'InvalidPath',
  'InvalidExpression',
  'InvalidSchema',
  'InvalidPolicy',
  'Unsupported',
  /** May resolve itself: the CustomResourceDefinition of the target may not be installed yet. */
  'UnknownTarget',
] as const;

export type RejectionReason = (typeof REJECTION_REASONS)[number];

/** One thing that is wrong with a policy. */
export interface Problem {
  readonly reason: RejectionReason;
  /** e.g. `spec.defaults[0].path` */
  readonly where: string;
  /** What is wrong, and what to write instead. */
  readonly message: string;
}

/** The path, or undefined and one more problem. */
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
