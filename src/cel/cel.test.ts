import { expect, test } from 'vitest';
import { compileCel } from './cel.ts';
import { evaluate } from '../../test/support/cel/evaluate.ts';

// Values are in test/data/cel-matrix-1.37.jsonl and cel-corpus-1.37.json, as an API server gave them.

test('a pattern with exponential backtracking is evaluated', () => {
  const text = `${'a'.repeat(40)}!`;
  expect(evaluate("text.matches('^(a+)+$')", { text })).toBe(false);
  expect(evaluate("matches(text, '^(a+)+$')", { text })).toBe(false);
});

test('an integer beyond 64 bits is a double', () => {
  expect(evaluate('type(x) == double', { x: 2n ** 63n })).toBe(true);
  expect(evaluate('type(x) == int', { x: 2n ** 63n - 1n })).toBe(true);
});

test.each([
  ['object.x.isSorted()', undefined],
  ['object.?x.orValue(1) == 1', undefined],
  ["cidr('10.0.0.0/8').containsIP('10.0.0.1')", 31],
  ['format.uuid().validate(object.x).hasValue()', 32],
  ['object.x.all(k, v, k != v)', 33],
  ["semver('1.2.3').major() == 1", 34],
  ["cidr('10.0.0.0/8').containsCIDR('10.0.0.0/9')", 34],
  ['object.x.sortBy(x, x) == object.x.reverse()', 35],
  ['object.x.orValue(1) == 1', 37],
  ["object.x.indexOf('a', 3) == 3", 37],
  ["object.x.indexOf('a') == 3", 32],
  ['object.?x.optMap(x, quantity(x)).hasValue()', 37],
  ['object.?x.optMap(x, object.?y).hasValue()', 37],
  ['object.?x.optMap(x, x + 1).hasValue()', undefined],
  ["'%d'.format([object.x]) == '%.2e'.format([1.5])", 37],
  ["variables.total.add(quantity('1')).isInteger()", 37],
  ["quantity('1').sub(1).add(1).isInteger()", undefined],
  ["[quantity('1')][0].add(1).isInteger()", 37],
  ["dyn(quantity('1')).add(1).isInteger()", 37],
  ["(object.x ? quantity('1') : quantity('2')).add(1).isInteger()", 37],
])('%s gives our result from Kubernetes 1.%s', (expression, minor) => {
  expect(compileCel(expression, ['object', 'variables']).needs?.minor).toBe(minor);
});

test.each([
  ["'%s %s'.format([1, [1, 'b']]) == ''", undefined],
  ["'%s'.format([dyn([1, 'a'])]) == ''", 31],
  ["'%s'.format([1] + ['a', 1]) == ''", 31],
])('%s, where literals must not mix types, is accepted from Kubernetes 1.%s', (expression, minor) => {
  expect(compileCel(expression, [], { uniformLiterals: true }).needs?.minor).toBe(minor);
});

test('a variable of optMap keeps its type, even next to a value of any type', () => {
  expect(() =>
    compileCel('optional.of(1).optMap(v, (true ? object : v) in v.getQuery())', ['object']),
  ).toThrow("found no matching overload for 'getQuery' applied to 'int.()'");
});

test('a caller that names no messages gets none', () => {
  expect(() => compileCel('Object{}', [])).toThrow("undeclared reference to 'Object' (in container '')");
});

test('only a format of Kubernetes has a name', () => {
  expect(evaluate("format.named('constructor').hasValue()")).toBe(false);
});
