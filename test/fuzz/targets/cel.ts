/** An invalid expression is rejected with a CelError, and the cost limit bounds each evaluation. */
import fc from 'fast-check';

import { celToJson } from '../../../src/cel/values/cel-to-json.ts';
import { CEL_COST_LIMIT, createCelBudget } from '../../../src/cel/values/values.ts';
import { CelError, compileCel } from '../../../src/cel/cel.ts';
import { toJsonText } from '../../../src/json/json-text.ts';
import { anyJson, mutatedObject, mutatedText } from '../mutated.ts';
import { corpusBindings, corpusCases, corpusExpressions, corpusObject } from '../seeds.ts';
import { answerOf, fuzzTarget, hold } from '../target.ts';
import { isEqual, isJsonArray, isJsonObject, type JsonValue } from '../../../src/json/json.ts';

const isCelError = (error: unknown) => error instanceof CelError;

const joined = fc
  .tuple(
    fc.constantFrom(...corpusExpressions),
    fc.constantFrom(' == ', ' + ', ' && ', ' ? object : ', '.map(x, ', ' in ', '.all(i, v, '),
    fc.constantFrom(...corpusExpressions),
    fc.constantFrom('', ')', ' : null'),
  )
  .map((parts) => parts.join(''));

const programs = fc.tuple(fc.oneof(mutatedText(corpusExpressions), joined), mutatedObject([corpusObject]));

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
    const program = compileCel(expression, Object.keys(corpusBindings), {
      result: 'bool',
      uniformLiterals: true,
    });
    try {
      return { result: program.evaluate(corpusBindings) === true };
    } catch (error) {
      if (!(error instanceof CelError)) throw error;
      return { error: error.message };
    }
  } catch (error) {
    if (!(error instanceof CelError)) throw error;
    return { compileError: true };
  }
}

type Sum = readonly [operator: '+' | '-' | '*' | '/' | '%', left: JsonValue, right: JsonValue];

const int64 = fc.oneof(
  fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n }),
  fc.bigInt({ min: -5n, max: 5n }),
  fc.constantFrom(-(2n ** 63n), 2n ** 63n - 1n, 2n ** 32n, -(2n ** 31n)),
);

const { sum } = fc.letrec<{ sum: JsonValue; pair: Sum }>((tie) => ({
  sum: fc.oneof({ depthSize: 'small', withCrossShrink: true }, int64, tie('pair')),
  pair: fc.tuple(fc.constantFrom('+', '-', '*', '/', '%'), tie('sum'), tie('sum')),
}));

/** Integer arithmetic in int64: an overflow is an error, never a wrong number. */
export const celArithmetic = fuzzTarget('CEL arithmetic', 40, sum, (input) => {
  const wanted = valueOf(input);
  const text = textOf(input);
  const found = answerOf(
    () => compileCel(text, ['x']).evaluate({}),
    (error) => error instanceof CelError,
  );
  hold(found === wanted, `${text} is ${String(found)}, and should be ${String(wanted)}`);
});

/** @throws Error for other types, which the inputs do not contain */
function integerOf(input: JsonValue): bigint {
  if (typeof input === 'bigint' || typeof input === 'number') return BigInt(input);
  throw new Error('an operand is no integer');
}

/** Undefined: the result is an error. */
function valueOf(input: JsonValue): bigint | undefined {
  if (!isJsonArray(input)) return integerOf(input);
  const [operator, ...parts] = input;
  const [left, right] = parts.map(valueOf);
  if (left === undefined || right === undefined) return undefined;
  if (right === 0n && (operator === '/' || operator === '%')) return undefined;
  const value = {
    '+': () => left + right,
    '-': () => left - right,
    '*': () => left * right,
    '/': () => left / right,
    '%': () => (left === -(2n ** 63n) && right === -1n ? undefined : left % right),
  }[operator as Sum[0]](); // the inputs contain only these operators
  return value !== undefined && BigInt.asIntN(64, value) === value ? value : undefined;
}

function textOf(input: JsonValue): string {
  if (!isJsonArray(input)) return integerOf(input).toString();
  const [operator, left = 0, right = 0] = input;
  return `(${textOf(left)} ${operator as Sum[0]} ${textOf(right)})`;
}

/** JSON written as a CEL literal evaluates to the same JSON. */
export const celLiterals = fuzzTarget('CEL literal', 30, anyJson, (value) => {
  const text = literalOf(value);
  if (text === undefined) return;
  const program = compileCel(`[${text}, object]`, ['object']);
  const found = celToJson(program.evaluate({ object: value }));
  hold(isEqual(found, [value, value]), () => `${text} is ${toJsonText(found)}`);
  const same = compileCel(`dyn(${text}) == object`, ['object']).evaluate({ object: value });
  hold(same === true, `${text} is not equal to it`);
});

/** Undefined: CEL lacks a literal for the value. */
function literalOf(value: JsonValue): string | undefined {
  if (typeof value === 'string') return value.isWellFormed() ? JSON.stringify(value) : undefined;
  if (typeof value === 'number') return numberText(value);
  if (isJsonArray(value)) {
    const items = value.map(literalOf);
    return items.includes(undefined) ? undefined : `[${items.join(', ')}]`;
  }
  if (!isJsonObject(value)) return String(value);
  const entries = Object.entries(value).map(([key, item]) => [literalOf(key), literalOf(item)]);
  return entries.some((entry) => entry.includes(undefined))
    ? undefined
    : `{${entries.map((entry) => entry.join(': ')).join(', ')}}`;
}

/** A dot or an exponent makes the literal a double. */
const numberText = (value: number): string => {
  const text = Object.is(value, -0) ? '-0.0' : String(value);
  return Number.isInteger(value) && Math.abs(value) > Number.MAX_SAFE_INTEGER && !/[.e]/.test(text)
    ? `${text}.0`
    : text;
};
