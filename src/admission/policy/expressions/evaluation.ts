import type { CelBudget } from '../../../cel/frame.ts';
import type { CompiledPolicy } from '../compiled-policy.ts';
import type { FoundReference } from '../references/read-references.ts';
import type { AdmissionRequest } from '../../review/request.ts';
import type { Bindings } from './bindings.ts';
import { createEvaluate, UnknownTarget, type CompiledExpression, type Evaluate } from './expression.ts';

/** Runs the checks of a policy on one request. */
export interface Evaluation {
  /** A missing target is absent from `refs`. */
  readonly evaluate: Evaluate;
  /** The missing targets that the expression reads, if its result could differ once they exist. */
  readonly awaits: (expression: CompiledExpression) => readonly FoundReference[];
}

export function createEvaluation(
  { variables }: Pick<CompiledPolicy, 'variables'>,
  request: AdmissionRequest,
  { inputs: fromCluster, missing }: Bindings,
  budget: CelBudget,
): Evaluation {
  const { object, oldObject } = request;
  const inputs = { ...fromCluster, request, object, oldObject };
  let unknown: Evaluate | undefined;
  const isUnknown = (expression: CompiledExpression): boolean => {
    const unknownRefs = new Set(missing.refs.map(({ reference }) => reference.name));
    unknown ??= createEvaluate(variables, { ...inputs, unknownRefs }, budget);
    try {
      unknown(expression);
      return false;
    } catch (error) {
      return error instanceof UnknownTarget;
    }
  };
  return {
    evaluate: createEvaluate(variables, inputs, budget),
    awaits: (expression) => {
      const targets = missing.refs.filter(({ reference }) => expression.reads.refs.has(reference.name));
      return targets.length > 0 && isUnknown(expression) ? targets : [];
    },
  };
}
