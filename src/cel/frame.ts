import { CelCostError, CelError } from './cel-error.ts';

/** One evaluation: its variables, and what it has cost so far. */
export interface Frame {
  readonly slots: unknown[];
  cost: number;
  readonly limit: number;
}

/** A part of an expression, ready to run. @throws CelError */
export type Step = (frame: Frame) => unknown;

/** Costs are the API server's: about one a call or field, a tenth a character. @throws CelCostError beyond the limit */
export function charge(frame: Frame, cost: number): void {
  frame.cost += cost;
  if (frame.cost > frame.limit) throw new CelCostError();
}

/** Of walking over this many characters, bytes or elements that are merely compared. */
export const traversal = (size: number): number => Math.ceil(size * 0.1);

/** Of reading a text that has a grammar, such as a quantity: our readers take longer than the API server's. */
export const parsing = (text: string): number => 20 + traversal(text.length);

/** Of matching a pattern, which is about the product of the two lengths. */
export const matching = (text: string, pattern: string): number =>
  traversal(text.length + 1) * Math.ceil(pattern.length * 0.25);

/** What one expression may cost, as for the API server's own policies. */
export const EXPRESSION_COST_LIMIT = 1_000_000;
/** What all expressions of one policy may cost together at one request. */
export const POLICY_COST_LIMIT = 10_000_000;

/** Work that evaluations may still do; one is shared by the expressions of a policy at one request. */
export interface CelBudget {
  /** What is left, in units of cost: about one a step of the evaluation. Never below zero. */
  remaining: number;
}

/** @param limit of all evaluations that get this budget together; each has {@link EXPRESSION_COST_LIMIT} at most besides */
export function createCelBudget(limit: number = POLICY_COST_LIMIT): CelBudget {
  return { remaining: limit };
}

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
