/** CEL held against what else knows the answer: a kube-apiserver that was asked, integers without a limit, JSON itself. */
import fc from 'fast-check';

import { celToJson } from '../../../src/cel/values/cel-to-json.ts';
import { CelError, compileCel } from '../../../src/cel/cel.ts';
import { isEqual, isJsonArray, isJsonObject, type JsonValue } from '../../../src/json/json.ts';
import { toJsonText } from '../../../src/json/json-text.ts';
import { anyJson } from '../mutated.ts';
import { corpusBindings, corpusCases } from '../seeds.ts';
import { answerOf, fuzzTarget, hold } from '../target.ts';

/** What an expression can be put into without changing what it says. */
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

/** A comment at its end is ended by a new line, so that what is put around it later is none. */
const wrapped = (expression: string, which: readonly number[]): string =>
  which.reduce((inner, index) => {
    const [before, behind] = WRAPS[index] ?? ['', ''];
    return `${before}${inner}${behind.includes('//') ? `${behind}\n` : behind}`;
  }, expression);

/** Expressions that a kube-apiserver 1.36 was asked about, put into others: it would answer the same. */
export const celRecorded = fuzzTarget(
  'CEL as kube-apiserver has it',
  40,
  fc.tuple(fc.nat({ max: corpusCases.length - 1 }), wraps),
  ([index, which]) => {
    const recorded = corpusCases[index];
    if (recorded === undefined) return;
    const expression = wrapped(recorded.expression, which);
    const ours = answerTo(expression);
    hold(
      isEqual(ours, recorded.answer),
      () => `${expression} is ${toJsonText(ours)} and was ${toJsonText(recorded.answer)}`,
    );
  },
);

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

/** Sums of int64: what does not fit is an error, never another number. */
export const celArithmetic = fuzzTarget('CEL arithmetic', 40, sum, (input) => {
  const wanted = valueOf(input);
  const text = textOf(input);
  const found = answerOf(
    () => compileCel(text, ['x']).evaluate({}),
    (error) => error instanceof CelError,
  );
  hold(found === wanted, () => `${text} is ${String(found)}, and should be ${String(wanted)}`);
});

/** @throws Error for what is none: the inputs hold nothing else */
function integerOf(input: JsonValue): bigint {
  if (typeof input === 'bigint' || typeof input === 'number') return BigInt(input);
  throw new Error('an operand is no integer');
}

/** Undefined: an error. */
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
  }[operator as Sum[0]](); // it is one
  return value !== undefined && BigInt.asIntN(64, value) === value ? value : undefined;
}

function textOf(input: JsonValue): string {
  if (!isJsonArray(input)) return integerOf(input).toString();
  const [operator, left = 0, right = 0] = input;
  return `(${textOf(left)} ${operator as Sum[0]} ${textOf(right)})`;
}

/** JSON written as CEL says what the JSON says. */
export const celLiterals = fuzzTarget('CEL literal', 30, anyJson, (value) => {
  const text = literalOf(value);
  if (text === undefined) return;
  const program = compileCel(`[${text}, object]`, ['object']);
  const found = celToJson(program.evaluate({ object: value }));
  hold(isEqual(found, [value, value]), () => `${text} is ${toJsonText(found)}`);
  const same = compileCel(`dyn(${text}) == object`, ['object']).evaluate({ object: value });
  hold(same === true, () => `${text} is not equal to it`);
});

/** Undefined: CEL has no way to write it. */
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

/** With a dot or an exponent it is a double. */
const numberText = (value: number): string => {
  const text = Object.is(value, -0) ? '-0.0' : String(value);
  return Number.isInteger(value) && Math.abs(value) > Number.MAX_SAFE_INTEGER && !/[.e]/.test(text)
    ? `${text}.0`
    : text;
};
