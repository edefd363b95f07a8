import { CelCostError, CelError } from './cel-error.ts';

/** The state of one evaluation: its variables and its cost so far. */
export interface Frame {
  readonly slots: unknown[];
  cost: number;
  readonly limit: number;
}

/** A compiled part of an expression. @throws CelError */
export type Step = (frame: Frame) => unknown;

/**
 * Adds a cost. Costs are those of the API server: about 1 per call or field, 0.1 per character. @throws CelCostError
 * above the limit
 */
export function charge(frame: Frame, cost: number): void {
  frame.cost += cost;
  if (frame.cost > frame.limit) throw new CelCostError();
}

/** The cost of traversing or comparing this many characters, bytes or elements. */
export const traversal = (size: number): number => Math.ceil(size * 0.1);

/** The cost of parsing a text with a grammar, such as a quantity: our parsers take longer than the API server's. */
export const parsing = (text: string): number => 20 + traversal(text.length);

/** The cost of matching a pattern, which is proportional to the product of both lengths. */
export const matching = (text: string, pattern: string): number =>
  traversal(text.length + 1) * Math.ceil(pattern.length * 0.25);

/** The cost limit of one expression, as in the API server's own policies. */
export const EXPRESSION_COST_LIMIT = 1_000_000;
/** The cost limit of all expressions of one policy per request. */
export const POLICY_COST_LIMIT = 10_000_000;

/** The remaining cost budget. All expressions of a policy share one per request. */
export interface CelBudget {
  /** The remaining cost: about 1 per evaluation step. Never negative. */
  remaining: number;
}

/** @param limit for all evaluations with this budget together; each is also limited by {@link EXPRESSION_COST_LIMIT} */
export function createCelBudget(limit: number = POLICY_COST_LIMIT): CelBudget {
  return { remaining: limit };
}

/** The cost of throwing and catching an error. */
const FAILURE_COST = 20;

/**
 * Runs an operand of a logical operator and returns its value or its error: the other operand may decide, so `false &&
 * 1/0 == 1` is false.
 *
 * @throws CelCostError, which no operand can absorb
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
