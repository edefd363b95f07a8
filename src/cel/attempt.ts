import { CelCostError, CelError } from './cel-error.ts';
import { charge, type Frame, type Step } from './frame.ts';

/** What it takes to throw and to catch an error, in units of cost. */
const FAILURE_COST = 20;

/**
 * The value, or the error, where another operand may make up for it: `false && 1/0 == 1` is false.
 *
 * @throws CelCostError, for which nothing makes up
 */
export function attempt(frame: Frame, step: Step): unknown {
  try {
    return step(frame);
  } catch (error) {
    if (!(error instanceof CelError) || error instanceof CelCostError) throw error;
    charge(frame, FAILURE_COST);
    return error;
  }
}
