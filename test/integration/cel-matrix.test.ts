/** Gatehouse's CEL gives the verdict of Kubernetes 1.37.2 to 6,695 generated expressions. */
import { expect, test } from 'vitest';

import { isSameVerdict, ourAnswer, readMatrix } from '../support/cel/matrix.ts';

const CASES = readMatrix(new URL('../data/cel-matrix-1.37.jsonl', import.meta.url));

const PANICS = 'the API server panics and answers "internal error"; Gatehouse says what is wrong';
/** The test also fails for an obsolete entry. */
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

test('every verdict, type and value equals the one of the API server', () => {
  const differing = CASES.filter((one) => !isSameVerdict(ourAnswer(one), one.kubernetes));
  const unexpected = differing
    .filter(({ expression }) => exceptionFor(expression) === undefined)
    .map((one) => ({ ...one, ours: ourAnswer(one) }));
  expect(unexpected).toEqual([]);
  const used = differing.map(({ expression }) => exceptionFor(expression)?.[0]);
  expect(used.toSorted()).toEqual(EXCEPTIONS.map(([starts]) => starts).toSorted());
});

test('expressions with another verdict in the oldest Kubernetes need a newer one', () => {
  const older = CASES.filter(({ oldest }) => oldest !== undefined);
  const missed = older
    .map((one) => ({ ...one, ours: ourAnswer(one) }))
    .filter(({ ours }) => ours.compileError === undefined && (ours.since ?? 0) <= 30)
    // Go's parser of URLs, which changed without Kubernetes.
    .filter(({ expression }) => !expression.startsWith('url("http://::1")'));
  expect(missed).toEqual([]);
  expect(older.length).toBeGreaterThan(1_000);
});

const COSTS_APART: readonly (readonly [pattern: RegExp, why: string])[] = [
  [
    /\.flatten\(im(ax|in)\)/,
    'for the largest and smallest depth the API server counts 2^63, and refuses the call',
  ],
];

test('the cost of each function differs from the API server by at most 10 %', () => {
  const sums = new Map<string, { ours: number; theirs: number }>();
  let exact = 0;
  let counted = 0;
  for (const one of CASES) {
    const { cost: theirs } = one.kubernetes;
    if (theirs === undefined || COSTS_APART.some(([pattern]) => pattern.test(one.expression))) continue;
    const { cost: ours } = ourAnswer(one);
    if (ours === undefined) continue;
    counted += 1;
    if (ours === theirs) exact += 1;
    for (const name of functionsOf(one.expression)) {
      const sum = sums.get(name) ?? { ours: 0, theirs: 0 };
      sums.set(name, { ours: sum.ours + ours, theirs: sum.theirs + theirs });
    }
  }
  // Two units more or less are no tenth, but some functions cost only one.
  const apart = [...sums].filter(
    ([, { ours, theirs }]) => Math.abs(ours - theirs) > Math.max(2, theirs / 10),
  );
  expect(apart).toEqual([]);
  expect(counted).toBeGreaterThan(4_000);
  expect(exact / counted).toBeGreaterThan(0.99);
});

function functionsOf(expression: string): ReadonlySet<string> {
  const names = [...expression.matchAll(/([a-zA-Z]\w*)\(/g)].map(([, name = '']) => name);
  return new Set(names.length === 0 ? ['(operators)'] : names);
}
