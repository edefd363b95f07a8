/** An invalid expression is rejected with a CelError, and the cost limit bounds each evaluation. */
import fc from 'fast-check';

import { celToJson } from '../../../src/cel/values/cel-to-json.ts';
import { createCelBudget, CEL_COST_LIMIT } from '../../../src/cel/values/values.ts';
import { CelError, compileCel } from '../../../src/cel/cel.ts';
import { toJsonText } from '../../../src/json/json-text.ts';
import { mutatedObject, mutatedText } from '../mutated.ts';
import { corpusExpressions, corpusObject } from '../seeds.ts';
import { answerOf, fuzzTarget, hold } from '../target.ts';

const isCelError = (error: unknown) => error instanceof CelError;

/** Two valid expressions, joined. */
const joined = fc
  .tuple(
    fc.constantFrom(...corpusExpressions),
    fc.constantFrom(' == ', ' + ', ' && ', ' ? object : ', '.map(x, ', ' in ', '.all(i, v, '),
    fc.constantFrom(...corpusExpressions),
    fc.constantFrom('', ')', ' : null'),
  )
  .map((parts) => parts.join(''));

export const cel = fuzzTarget(
  'CEL',
  110,
  fc.tuple(fc.oneof(mutatedText(corpusExpressions), joined), mutatedObject([corpusObject])),
  ([expression, object]) => {
    const program = answerOf(() => compileCel(expression, ['object', 'oldObject', 'request']), isCelError);
    if (program === undefined) return;
    const bindings = { object, oldObject: null, request: { operation: 'CREATE', name: 'x' } };
    const evaluate = (limit: number) => {
      const budget = createCelBudget(limit);
      const value = answerOf(() => toJsonText(celToJson(program.evaluate(bindings, budget))), isCelError);
      return { value, cost: limit - Math.min(budget.remaining, budget.time) };
    };
    const { value, cost } = evaluate(CEL_COST_LIMIT);
    const again = evaluate(CEL_COST_LIMIT);
    hold(value === again.value, () => 'the second evaluation has another value');
    hold(cost === again.cost, () => 'the second evaluation has another cost');
    hold(cost <= CEL_COST_LIMIT, () => `the cost ${cost} exceeds the limit`);
    if (value === undefined || cost === 0) return;
    hold(evaluate(cost).value === value, () => 'the evaluation fails within its own cost');
    hold(evaluate(cost - 1).value === undefined, () => 'the evaluation succeeds below its cost');
  },
);
