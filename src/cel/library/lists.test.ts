import { expect, test } from 'vitest';
import { failureOf } from '../../../test/support/cel/evaluate.ts';

test.each([
  ['[].min()', 'min called on empty list'],
  ['[1].slice(0, 2)', 'cannot slice(0, 2), list is length 1'],
  ['[1].slice(-1, 1)', 'cannot slice(-1, 1), negative indexes not supported'],
  ['[1].slice(1, 0)', 'cannot slice(1, 0), start index must be less than or equal to end index'],
  ['lists.range(1000001)', 'lists.range: size 1000001 exceeds maximum allowed (1000000)'],
  ['lists.range(-1)', 'lists.range: size must be non-negative, got -1'],
  ["dyn(['a']).reverse().max()", 'no such overload: max(list)'],
  ["dyn([1, 'a']).sort()", 'list elements must have the same type'],
  ["['a'].sum()", "found no matching overload for 'sum' applied to 'list(string).()'"],
  ['list.sum()', 'no such overload: sum(list)'],
])('%s: %s', (expression, message) => {
  expect(failureOf(expression, { list: ['a'] })).toBe(message);
});
