/** Gatehouse's CEL gives the verdict of kube-apiserver 1.36.2 to 6,695 generated expressions. */
import { expect, test } from 'vitest';

import { isSameVerdict, ourAnswer, readMatrix } from '../support/cel/matrix.ts';

const CASES = readMatrix(new URL('../data/cel-matrix-1.36.jsonl', import.meta.url));

const PANICS = 'the API server panics and answers "internal error"; Gatehouse says what is wrong';
/** An obsolete entry fails, too. */
const EXCEPTIONS: readonly (readonly [starts: string, why: string])[] = [
  ['[?imax]', PANICS],
  ['[?ts]', PANICS],
  ['[?x]', PANICS],
  ['{?"k": m0}', PANICS],
  ['x.?a.?a', 'one selection deeper than any other expression that the API server accepts: 250 in a row'],
  ['1 + (1 + (1', 'exactly at the limit of 250 levels, which cel-go counts in another way'],
];
const exceptionFor = (expression: string) => EXCEPTIONS.find(([starts]) => expression.startsWith(starts));

test('the matrix has all recorded expressions', () => {
  expect(CASES).toHaveLength(6_695);
});

test('every verdict, type and value is that of the API server', () => {
  const differing = CASES.filter((one) => !isSameVerdict(ourAnswer(one), one.kubernetes));
  const unexpected = differing
    .filter(({ expression }) => exceptionFor(expression) === undefined)
    .map((one) => ({ ...one, ours: ourAnswer(one) }));
  expect(unexpected).toEqual([]);
  const used = differing.map(({ expression }) => exceptionFor(expression)?.[0]);
  expect(used.toSorted()).toEqual(EXCEPTIONS.map(([starts]) => starts).toSorted());
});
