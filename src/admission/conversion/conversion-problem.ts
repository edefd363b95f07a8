/** Why a ConversionPolicy does not convert, in one word for its `Ready` condition; the gravest first. */
export const CONVERSION_REASONS = [
  'InvalidPath',
  'InvalidExpression',
  'InvalidPolicy',
  /** A path that leads nowhere: nothing would happen there, or the API server would drop what is written. */
  'UnknownField',
  /** A field that two versions spell alike and mean differently. */
  'TypeChange',
  /** The CustomResourceDefinition has no such version (yet). */
  'UnknownVersion',
  /** The CustomResourceDefinition serves or stores a version that has no steps (yet). */
  'MissingVersion',
] as const;

export type ConversionReason = (typeof CONVERSION_REASONS)[number];

/** One thing that is wrong with a ConversionPolicy. */
export interface ConversionProblem {
  readonly reason: ConversionReason;
  /** e.g. `spec.versions[0].toHub[1].move.from` */
  readonly where: string;
  /** What is wrong, and what to write instead. */
  readonly message: string;
}
