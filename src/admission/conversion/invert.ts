import type { ConversionStep } from '../../api/conversion-policy.ts';

export type Inversion =
  | { readonly kind: 'inverse'; readonly steps: readonly ConversionStep[] }
  /** A step whose inverse only the author can write. */
  | { readonly kind: 'none'; readonly index: number; readonly verb: 'set' | 'remove' };

/**
 * The steps that undo `steps`: moves backwards, in the opposite order. A default needs no undoing: it fills what was absent,
 * and that it was is kept like everything else that would not come back.
 */
export function invert(steps: readonly ConversionStep[]): Inversion {
  const inverse: ConversionStep[] = [];
  for (const [index, step] of steps.entries()) {
    if (step.set !== undefined) return { kind: 'none', index, verb: 'set' };
    if (step.remove !== undefined) return { kind: 'none', index, verb: 'remove' };
    if (step.move !== undefined) inverse.unshift({ move: { from: step.move.to, to: step.move.from } });
  }
  return { kind: 'inverse', steps: inverse };
}
