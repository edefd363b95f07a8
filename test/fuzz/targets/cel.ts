/** Expressions of users: what is none is refused with a place, and none runs for long. */
import fc from 'fast-check';

import { celToJson } from '../../../src/admission/cel/cel-to-json.ts';
import { CelError, compileCel } from '../../../src/admission/cel/cel.ts';
import { toJsonText } from '../../../src/admission/json-text.ts';
import { mutatedObject, mutatedText } from '../mutated.ts';
import { corpusExpressions, corpusObject } from '../seeds.ts';
import { answerOf, fuzzTarget } from '../target.ts';

const isCelError = (error: unknown) => error instanceof CelError;

/** Two that are right, put together. */
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
  20,
  fc.tuple(fc.oneof(mutatedText(corpusExpressions), joined), mutatedObject([corpusObject])),
  ([expression, object]) => {
    const program = answerOf(() => compileCel(expression, ['object', 'oldObject', 'request']), isCelError);
    if (program === undefined) return;
    const bindings = { object, oldObject: null, request: { operation: 'CREATE', name: 'x' } };
    const evaluate = () => toJsonText(celToJson(program.evaluate(bindings)));
    const first = answerOf(evaluate, isCelError);
    if (first !== answerOf(evaluate, isCelError)) throw new Error('the second time it has another value');
  },
);
