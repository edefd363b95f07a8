import { expect, test } from 'vitest';
import { evaluate, failureOf } from '../../../test/support/cel/evaluate.ts';

const object = { spec: { name: 'a', list: [1], nothing: null, inner: { x: 1 } } };

test('any alternative is the result, as in cel-go', () => {
  expect(evaluate('optional.none().or(dyn(1))', { object })).toBe(1n);
  expect(failureOf('optional.none().or(dyn(1)).hasValue()', { object })).toBe(
    'no such overload: hasValue(int)',
  );
});
