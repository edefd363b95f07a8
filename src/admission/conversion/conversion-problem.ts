/** Why a ConversionPolicy does not convert, as the reason of its `Ready` condition. The most severe reason is first. */
export const CONVERSION_REASONS = [
  'InvalidPath',
  'InvalidExpression',
  'InvalidPolicy',
  /**
   * A path that the schema does not have: the step would do nothing, or the API server would drop the written value.
   */
  'UnknownField',
  /** A field with the same name but a different type in two versions. */
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
