import { type CelBudget, EXPRESSION_COST_LIMIT } from './cel-budget.ts';
import { asCelError } from './cel-error.ts';
import type { Frame, Step } from './frame.ts';

/** What is to run, and where it expects the values of its variables. */
export interface Executable {
  readonly step: Step;
  readonly used: readonly (readonly [name: string, slot: number])[];
  /** How many variables there are, those of macros among them. */
  readonly size: number;
}

/**
 * Runs it once.
 *
 * @param convert what makes CEL values of the given ones
 * @throws CelError
 */
export function execute(
  { step, used, size }: Executable,
  values: Readonly<Record<string, unknown>>,
  convert: (value: unknown) => unknown,
  budget: CelBudget | undefined,
): unknown {
  const limit = Math.min(EXPRESSION_COST_LIMIT, budget?.remaining ?? Infinity);
  const frame: Frame = { slots: new Array<unknown>(size), cost: 0, limit };
  try {
    for (const [name, slot] of used) {
      frame.slots[slot] = Object.hasOwn(values, name) ? convert(values[name]) : undefined;
    }
    return step(frame);
  } catch (error) {
    throw asCelError(error);
  } finally {
    if (budget !== undefined) budget.remaining = Math.max(0, budget.remaining - frame.cost);
  }
}
