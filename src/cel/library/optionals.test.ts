import { expect, test } from 'vitest';
import { evaluate, failureOf } from '../../../test/support/cel/evaluate.ts';

const object = { spec: { name: 'a', list: [1], nothing: null, inner: { x: 1 } } };

test.each([
  ['object.?spec.?name.orValue("x")', 'a'],
  ['object.?spec.name.orValue("x")', 'a'],
  ['object.?nope.name.hasValue()', false],
  ['object.spec.?inner.x.value()', 1n],
  ['object.spec.list[?0].value()', 1n],
  ['object.spec.?list[0].value()', 1n],
  ['object.spec[?"nope"].or(optional.of(2)).value()', 2n],
  ['object.spec.?nothing.hasValue()', true],
  ['optional.ofNonZeroValue("").hasValue()', false],
  ['optional.ofNonZeroValue([0]).hasValue()', true],
  ['optional.ofNonZeroValue(optional.none()).hasValue()', true],
  ['object.spec.?name.optMap(n, n + "!").value()', 'a!'],
  ['object.spec.?nope.optMap(n, n + "!").hasValue()', false],
  ['object.spec.?name.optFlatMap(n, object.?nope).hasValue()', false],
  ['[?object.?nope, 1, ?object.spec.?name]', [1n, 'a']],
  [
    '{?"a": object.?nope, "b": 1, ?"c": optional.of(2)}',
    new Map([
      ['b', 1n],
      ['c', 2n],
    ]),
  ],
  ['[[?object.?nope], [1]]', [[], [1n]]],
  ['[object.spec.list[?9].hasValue() ? 1 : 2]', [2n]],
  ['["?", \'a?b\', "[?"].size()', 3n],
  ['optional.of(1) == optional.of(1) && optional.none() == optional.none()', true],
  ['optional.of(1) != optional.none()', true],
  ['has(object.?spec.name) && !has(object.?nope.name)', true],
  ['[optional.of(1), optional.none()].unwrapOpt()', [1n]],
])('%s', (expression, result) => {
  expect(evaluate(expression, { object })).toEqual(result);
});

test('any alternative is the result, as in cel-go', () => {
  expect(evaluate('optional.none().or(dyn(1))', { object })).toBe(1n);
  expect(failureOf('optional.none().or(dyn(1)).hasValue()', { object })).toBe(
    'no such overload: hasValue(int)',
  );
});

test('an alternative is not evaluated while there is a value', () => {
  expect(evaluate('object.?spec.?name.orValue(object.nope)', { object })).toBe('a');
});

test.each([
  ['optional.none().value()', 'optional.none() dereference'],
  ['object.nope.?x', 'no such key: nope'],
  ['[?1]', "expected type 'optional_type(dyn)' but found 'int'"],
])('%s: %s', (expression, message) => {
  expect(failureOf(expression, { object })).toBe(message);
});
