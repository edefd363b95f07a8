import { expect, test } from 'vitest';
import { evaluate, failureOf } from '../../../test/support/cel/evaluate.ts';

test.each([
  ["'abc'.charAt(4)", 'index out of range: 4'],
  ["'abc'.substring(2, 1)", 'invalid substring range. start: 2, end: 1'],
  ["'abc'.substring(1, 4)", 'index out of range: 4'],
])('%s: %s', (expression, message) => {
  expect(failureOf(expression)).toBe(message);
});

test('a string of 100,000 spaces with a suffix is trimmed in linear time', () => {
  expect(evaluate('text.trim().size()', { text: `x${' '.repeat(100_000)}y` })).toBe(100_002n);
});

test.each([
  ["'%s %s %s'.format(['a', 1, 1.5])", 'a 1 1.5'],
  ["'%d%% of %d'.format([5, 7u])", '5% of 7'],
  ["'%x %X %o %b'.format([255, 255, 8, -5])", 'ff FF 10 -101'],
  ["'%x %X %b'.format(['hello', b'hi', true])", '68656c6c6f 6869 1'],
  ["'%.3f %f'.format([12345.6789, -0.5])", '12,345.679 -0.500000'],
  ["'%.2e'.format([1052.032911275])", '1.052033×10⁰³'],
  ["'%s'.format([['a', 1, 2.5, null, true, b'x', [1u]]])", '["a", 1, 2.500000, null, true, b"x", [1]]'],
  ["'%s'.format([{'b': 1, 'a': ['x']}])", '{"a":["x"], "b":1}'],
  ["'%s'.format([{2: 'x', 1: duration('90s')}])", '{1:duration("90s"), 2:"x"}'],
  ["'%s %s'.format([timestamp('2026-01-02T03:04:05.5Z'), duration('1h')])", '2026-01-02T03:04:05.5Z 3600s'],
  ["'%s'.format([type(1)])", 'int'],
])('%s', (expression, result) => {
  expect(evaluate(expression)).toBe(result);
});

test.each([
  ["'%s'.format([])", 'index 0 out of range'],
  [
    "'%d'.format(['a'])",
    'error during formatting: decimal clause can only be used on integers, was given string',
  ],
  [
    "'%f'.format([1])",
    'error during formatting: fixed-point clause can only be used on doubles, was given int',
  ],
  ["'%q'.format([1])", 'could not parse formatting clause: unrecognized formatting clause "q"'],
  ["'%'.format([1])", 'could not parse formatting clause: unexpected end of string'],
  ["'%.999f'.format([1.0])", 'error during formatting: precision must be at most 100, was 999'],
])('%s: %s', (expression, message) => {
  expect(failureOf(expression)).toBe(message);
});

test('a pattern that is not RE2 is an error: a literal at compile time, any other at run time', () => {
  expect(failureOf("'a'.find('(?=a)')")).toContain('invalid find argument');
  expect(failureOf("'a'.matches(pattern)", { pattern: '(?=a)' })).toContain('(?=');
  expect(failureOf("'a'.find(pattern)", { pattern: '(?=a)' })).toContain('Illegal regex');
});
