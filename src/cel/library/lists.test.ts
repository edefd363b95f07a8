import { expect, test } from 'vitest';
import { evaluate, failureOf } from '../../../test/support/cel/evaluate.ts';

test.each([
  ['[1, 3].isSorted() && [].isSorted() && !["b", "a"].isSorted()', true],
  ['[1u, 2u].sum() == 3u', true],
  ['type([1u].filter(one, false).sum()) == uint', true],
  ['dyn([1.5, 2.5]).sum()', 4],
  ['[0.1, 0.2].min()', 0.1],
  ["['b', 'a'].max()", 'b'],
  ['[true, false].min()', false],
  ['[1, 2, 2].indexOf(2)', 1n],
  ['[1, 2, 2].lastIndexOf(2)', 2n],
  ['[1].indexOf(dyn(1.0))', 0n],
  ['[1, 2, 3].slice(1, 1)', []],
  ['dyn([1, [2, [3, [4]]]]).flatten(2)', [1n, 2n, 3n, [4n]]],
  ['[[1, 2], []].flatten()', [1n, 2n]],
  ["['b', 'a', 'c'].sort()", ['a', 'b', 'c']],
  ["['bb', 'a'].sortBy(s, size(s))", ['a', 'bb']],
  ['[dyn(1), 1.0, 1u, 2, "1", [1], [1.0], {"a": 1}, {"a": 1}].distinct().size()', 5n],
  ["['b', 'b', 'c', 'a', 'c'].distinct()", ['b', 'c', 'a']],
  ['[5, 3].reverse()', [3n, 5n]],
  ['lists.range(0)', []],
  ["[dyn(1), 'b', 'a'].isSorted() || [dyn(1), 'a', 'b'].max() != 1", false],
  ['[1, 2].first().value() == 1 && [1, 2].last().value() == 2 && !list.first().hasValue()', true],
  ['sets.contains([1, 2], [1.0, 2u])', true],
  ['sets.equivalent([1, 1], [1]) && !sets.equivalent([1, 2], [1])', true],
  ['sets.intersects([[1], [2]], [[2]])', true],
  ['sets.intersects([], [1])', false],
])('%s', (expression, result) => {
  expect(evaluate(expression, { list: [] })).toEqual(result);
});

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
