/** Why a policy is not enforced, in one word for its `Ready` condition; the gravest first. */
export const REJECTION_REASONS = [
  'LockoutScope',
  'InvalidPath',
  'InvalidExpression',
  'InvalidSchema',
  'InvalidPolicy',
  'Unsupported',
  /** May mend itself: the target's CustomResourceDefinition is perhaps not there yet. */
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
