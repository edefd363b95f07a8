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
