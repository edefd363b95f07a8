import { CelCostError, CelError } from './cel-error.ts';

export interface Frame {
  readonly slots: unknown[];
  readonly budget: CelBudget;
}

export type Step = (frame: Frame) => unknown;

/** Counts the time that steps take here: about 1 per call or field. @throws CelCostError when nothing is left */
export function charge({ budget }: Frame, time: number): void {
  budget.time -= time;
  if (budget.time >= 0) return;
  budget.time = 0;
  throw new CelCostError();
}

/** A cost that the API server counts as well. @throws CelCostError when nothing is left */
export function count({ budget }: Frame, cost: number): void {
  budget.remaining -= cost;
  if (budget.remaining >= 0) return;
  budget.remaining = 0;
  throw new CelCostError();
}

/** Charges a cost that the step has both here and in the API server. @throws CelCostError when nothing is left */
export function spend({ budget }: Frame, cost: number): void {
  budget.time -= cost;
  budget.remaining -= cost;
  if (budget.time >= 0 && budget.remaining >= 0) return;
  budget.time = Math.max(0, budget.time);
  budget.remaining = Math.max(0, budget.remaining);
  throw new CelCostError();
}

/** The cost of traversing or comparing this many characters, bytes or elements. */
export const traversal = (size: number): number => Math.ceil(size * 0.1);

/** The cost of parsing a text with a grammar, such as a quantity: our parsers take longer than the API server's. */
export const parsing = (text: string): number => 20 + traversal(text.length);

/** The cost of matching a pattern, which is proportional to the product of both lengths. */
export const matching = (text: string, pattern: string): number =>
  traversal(text.length + 1) * Math.ceil(pattern.length * 0.25);

/** The limit for all expressions that can deny one review: 10 to 90 ms here. The API server has the same limit for each expression. */
export const CEL_COST_LIMIT = 1_000_000;

export interface CelBudget {
  /** In units of the API server, which counts about 1 per evaluation step. Never negative. */
  remaining: number;
  /** In units of the same size, by the time that the steps take here, which the API server's cost does not measure. Never negative. */
  time: number;
}

export const createCelBudget = (limit: number = CEL_COST_LIMIT): CelBudget => ({
  remaining: limit,
  time: limit,
});

const FAILURE_COST = 20;

/** The value or the error: the other operand may decide. @throws CelCostError, which no operand can absorb */
export function attempt(frame: Frame, step: Step): unknown {
  try {
    return step(frame);
  } catch (error) {
    if (!(error instanceof CelError) || error instanceof CelCostError) throw error;
    charge(frame, FAILURE_COST);
    return error;
  }
}
