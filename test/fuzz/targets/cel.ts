/** An invalid expression is rejected with a CelError, and the cost limit bounds each evaluation. */
import fc from 'fast-check';

import { celToJson } from '../../../src/cel/values/cel-to-json.ts';
import { CEL_COST_LIMIT, createCelBudget } from '../../../src/cel/values/values.ts';
import { CelError, compileCel } from '../../../src/cel/cel.ts';
import { toJsonText } from '../../../src/json/json-text.ts';
import { mutatedObject, mutatedText } from '../mutated.ts';
import { corpus, corpusCases, corpusExpressions } from '../seeds.ts';
import { answerOf, fuzzTarget, hold } from '../target.ts';
import { isEqual } from '../../../src/json/json.ts';

const isCelError = (error: unknown) => error instanceof CelError;

const joined = fc
  .tuple(
    fc.constantFrom(...corpusExpressions),
    fc.constantFrom(' == ', ' + ', ' && ', ' ? object : ', '.map(x, ', ' in ', '.all(i, v, '),
    fc.constantFrom(...corpusExpressions),
    fc.constantFrom('', ')', ' : null'),
  )
  .map((parts) => parts.join(''));

const programs = fc.tuple(
  fc.oneof(mutatedText(corpusExpressions), joined),
  mutatedObject([corpus.bindings.object]),
);

export const cel = fuzzTarget('CEL', 110, programs, ([expression, object]) => {
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
  hold(value === again.value, 'the second evaluation has another value');
  hold(cost === again.cost, 'the second evaluation has another cost');
  hold(cost <= CEL_COST_LIMIT, `the cost ${cost} exceeds the limit`);
  if (value === undefined || cost === 0) return;
  hold(evaluate(cost).value === value, 'the evaluation fails within its own cost');
  hold(evaluate(cost - 1).value === undefined, 'the evaluation succeeds below its cost');
});

/** Contexts for an expression that do not change its value. */
const WRAPS = [
  ['(', ')'],
  [' \t', '\n'],
  ['// "\n', ''],
  ['', ' // )'],
  ['true && (', ')'],
  ['(', ') && true'],
  ['false || (', ')'],
  ['(', ') || false'],
  ['!!(', ')'],
  ['true ? (', ') : false'],
  ['false ? true : (', ')'],
  ['[', '][0]'],
  ['{"k": ', '}.k'],
  ['[', '].all(e__, e__)'],
  ['[', '].exists_one(e__, e__)'],
  ['optional.of(', ').value()'],
] as const;

const wraps = fc.array(fc.nat({ max: WRAPS.length - 1 }), { maxLength: 5 });

/** Adds a newline after a trailing comment, so that the comment does not swallow the next context. */
const wrapped = (expression: string, which: readonly number[]): string =>
  which.reduce((inner, index) => {
    const [before, behind] = WRAPS[index] ?? ['', ''];
    return `${before}${inner}${behind.includes('//') ? `${behind}\n` : behind}`;
  }, expression);

const recordings = fc.tuple(fc.nat({ max: corpusCases.length - 1 }), wraps);

/** Puts recorded expressions of kube-apiserver 1.36 into contexts that do not change their value. */
export const celRecorded = fuzzTarget('CEL as kube-apiserver has it', 40, recordings, ([index, which]) => {
  const recorded = corpusCases[index];
  if (recorded === undefined) return;
  const expression = wrapped(recorded.expression, which);
  const ours = answerTo(expression);
  hold(
    isEqual(ours, recorded.answer),
    () => `${expression} is ${toJsonText(ours)} and was ${toJsonText(recorded.answer)}`,
  );
});

type Answer = { readonly result: boolean } | { readonly error: string } | { readonly compileError: true };

function answerTo(expression: string): Answer {
  try {
    const program = compileCel(expression, Object.keys(corpus.bindings), {
      result: 'bool',
      uniformLiterals: true,
    });
    try {
      return { result: program.evaluate(corpus.bindings) === true };
    } catch (error) {
      if (!(error instanceof CelError)) throw error;
      return { error: error.message };
    }
  } catch (error) {
    if (!(error instanceof CelError)) throw error;
    return { compileError: true };
  }
}
