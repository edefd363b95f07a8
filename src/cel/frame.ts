import { CelCostError } from './cel-error.ts';

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
